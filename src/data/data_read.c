/* Reading bodies. A reader pins an epoch, reads the row that names the body, opens the body (which
 * pins the volume file), and from then on needs neither. Any thread. */
#include "base/check.h"
#include "base/error.h"
#include "base/metrics.h"
#include "data/data_int.h"

#define OPEN_ATTEMPTS 16

static METRIC_DEFINE_COUNTER(metric_corrupt, "hayloft_data_corrupt_reads_total", NULL,
                             "Reads of bodies that failed their checksum.");

void data_pin(struct data *data, struct data_pin *pin) {
    pthread_mutex_lock(&data->mutex);
    *pin = (struct data_pin){.epoch = data->epoch, .next = data->pins};
    if (pin->next != NULL) {
        pin->next->prev = pin;
    }
    data->pins = pin;
    pthread_mutex_unlock(&data->mutex);
}

void data_unpin(struct data *data, struct data_pin *pin) {
    pthread_mutex_lock(&data->mutex);
    if (pin->prev != NULL) {
        pin->prev->next = pin->next;
    } else {
        CHECK(data->pins == pin);
        data->pins = pin->next;
    }
    if (pin->next != NULL) {
        pin->next->prev = pin->prev;
    }
    pthread_mutex_unlock(&data->mutex);
    *pin = (struct data_pin){0};
}

int data_body_open(struct data *data, struct body_id id, struct data_body *ret) {
    /* Compaction may move the record and remove the volume between the two looks. */
    for (int attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
        struct data_place place;
        int err = data_row_get(data, id, &place);
        if (err != 0) {
            return err;
        }
        struct volume_file *file = volume_pin(data->volumes, place.location.volume);
        if (file != NULL) {
            *ret = (struct data_body){file, place.location, id};
            return 0;
        }
    }
    return -HL_ERR_CORRUPT; /* the volume is missing */
}

void data_body_done(struct data_body *body) {
    volume_unpin(body->file);
    body->file = NULL;
}

int data_body_read(struct data *data, const struct data_body *body, uint64_t off, void *bytes,
                   size_t size, bool nowait) {
    int err = volume_read(body->file, &body->location, body->id, off, bytes, size, nowait);
    if (err == -HL_ERR_CORRUPT || err == -HL_ERR_IO) {
        metric_register(&metric_corrupt);
        metric_add(&metric_corrupt, 1);
        data_damage_add(data, body->id, &body->location, SLICE_EMPTY, err);
    }
    return err;
}
