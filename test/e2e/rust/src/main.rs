//! object_store against a store: put, get, ranges, multipart, conditional put, copy, listing, deletion.
//! Usage: hayloft-e2e URL BUCKET; keys come from the environment. Prints "done" at the end.
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion, WriteMultipart,
};

fn content(size: usize) -> Bytes {
    (0..size).map(|i| (i * 31 + size) as u8).collect::<Vec<u8>>().into()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "no TLS provider")?;
    let arguments: Vec<String> = std::env::args().collect();
    let store = AmazonS3Builder::from_env()
        .with_endpoint(&arguments[1])
        .with_allow_http(true)
        .with_bucket_name(&arguments[2])
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .build()?;

    for size in [0usize, 4096, 3_000_000] {
        let path = Path::from(format!("folder/file {size}+é"));
        store.put(&path, content(size).into()).await?;
        assert_eq!(store.get(&path).await?.bytes().await?, content(size));
        assert_eq!(store.head(&path).await?.size, size as u64);
    }
    let middle = Path::from("folder/file 3000000+é");
    assert_eq!(store.get_range(&middle, 1000..2000).await?, content(3_000_000).slice(1000..2000));
    let ranges = store.get_ranges(&middle, &[5..10, 2_000_000..2_000_100]).await?;
    assert_eq!(ranges[1], content(3_000_000).slice(2_000_000..2_000_100));

    let large = Path::from("large");
    let mut writer = WriteMultipart::new(store.put_multipart(&large).await?);
    for piece in content(17 << 20).chunks(1 << 20) {
        writer.write(piece);
    }
    writer.finish().await?;
    assert_eq!(store.get(&large).await?.bytes().await?, content(17 << 20));

    let once = Path::from("once");
    let create = PutOptions::from(PutMode::Create);
    let first = store.put_opts(&once, content(10).into(), create.clone()).await?;
    let again = store.put_opts(&once, content(20).into(), create).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    let update = PutOptions::from(PutMode::Update(UpdateVersion::from(first)));
    store.put_opts(&once, content(30).into(), update.clone()).await?;
    let stale = store.put_opts(&once, content(40).into(), update).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
    assert_eq!(store.get(&once).await?.bytes().await?, content(30));

    let copy = Path::from("copy");
    store.copy(&middle, &copy).await?;
    assert_eq!(store.get(&copy).await?.bytes().await?, content(3_000_000));
    assert!(matches!(store.get(&Path::from("nothing")).await, Err(Error::NotFound { .. })));

    let level = store.list_with_delimiter(None).await?;
    assert_eq!(level.common_prefixes, vec![Path::from("folder")]);
    let all: Vec<_> = store.list(None).map_ok(|m| m.location).try_collect().await?;
    assert_eq!(all.len(), 6, "{all:?}");
    for path in all {
        store.delete(&path).await?;
    }
    let left: Vec<_> = store.list(None).try_collect().await?;
    assert!(left.is_empty());
    println!("done");
    Ok(())
}
