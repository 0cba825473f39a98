/* The handlers that the route table names, one family a file (op_*.c). Each is called on the
 * request's loop after authorisation and must end the request in the end. */
#ifndef S3_OPERATIONS_H
#define S3_OPERATIONS_H

#include "s3/request.h"

/* op_bucket.c */
void s3_list_buckets(struct s3_request *r);
void s3_create_bucket(struct s3_request *r);
void s3_head_bucket(struct s3_request *r);
void s3_delete_bucket(struct s3_request *r);
void s3_get_bucket_location(struct s3_request *r);

/* op_subresource.c: the answers of a bucket that never configured them. */
void s3_get_bucket_versioning(struct s3_request *r);
void s3_get_bucket_acl(struct s3_request *r);
void s3_get_bucket_policy_status(struct s3_request *r);
void s3_get_bucket_logging(struct s3_request *r);
void s3_get_bucket_notification(struct s3_request *r);
void s3_get_bucket_request_payment(struct s3_request *r);
void s3_get_bucket_accelerate(struct s3_request *r);
void s3_get_object_acl(struct s3_request *r);
void s3_get_object_tagging(struct s3_request *r);
void s3_get_object_retention(struct s3_request *r);
void s3_no_content(struct s3_request *r); /* DELETE of what was never configured */

/* op_list.c */
void s3_list_objects_v1(struct s3_request *r);
void s3_list_objects_v2(struct s3_request *r);
void s3_list_object_versions(struct s3_request *r);

/* op_object.c */
void s3_get_object(struct s3_request *r); /* and HeadObject */
void s3_get_object_attributes(struct s3_request *r);

/* op_put.c */
void s3_put_object(struct s3_request *r);
void s3_upload_part(struct s3_request *r);

/* op_copy.c */
void s3_copy_object(struct s3_request *r);
void s3_upload_part_copy(struct s3_request *r);

/* op_delete.c */
void s3_delete_object(struct s3_request *r);
void s3_delete_objects(struct s3_request *r);

/* op_multipart.c */
void s3_create_multipart_upload(struct s3_request *r);
void s3_complete_multipart_upload(struct s3_request *r);
void s3_abort_multipart_upload(struct s3_request *r);
void s3_list_parts(struct s3_request *r);
void s3_list_multipart_uploads(struct s3_request *r);

#endif
