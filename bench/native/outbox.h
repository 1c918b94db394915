/* Frames that wait to be sent on one connection: small ones together in one send, large ones by sendfile. */
#ifndef OUTBOX_H
#define OUTBOX_H
#include "frames.h"
#include <sys/sendfile.h>
#include <sys/socket.h>

typedef struct {
    const Frame *frame;
    uint32_t id;
} Letter;

typedef struct {
    Letter *letters; /* a ring */
    unsigned room, first, count;
    size_t sent; /* bytes of the first one that are sent */
} Outbox;

static void outbox_open(Outbox *box, unsigned room) {
    *box = (Outbox){calloc(room, sizeof(Letter)), room, 0, 0, 0};
    if (!box->letters) die("memory");
}

static void outbox_put(Outbox *box, const Frame *frame, uint32_t id) {
    if (box->count == box->room) {
        fprintf(stderr, "more than %u frames wait on one connection\n", box->room);
        exit(1);
    }
    box->letters[(box->first + box->count++) % box->room] = (Letter){frame, id};
}

static void outbox_advance(Outbox *box, size_t bytes) {
    box->sent += bytes;
    while (box->count && box->sent >= box->letters[box->first].frame->size) {
        box->sent -= box->letters[box->first].frame->size;
        box->first = (box->first + 1) % box->room;
        box->count--;
    }
}

/* Send what the socket takes. Returns the bytes sent; -1 if the connection is gone. */
static ssize_t outbox_flush(Outbox *box, int fd) {
    static uint8_t buffer[256 * 1024];
    ssize_t total = 0;
    while (box->count) {
        const Letter *head = &box->letters[box->first];
        size_t prefix = head->frame->id_at + 4;
        ssize_t sent;
        size_t offered;
        if (head->frame->file >= 0 && box->sent >= prefix) {
            off_t at = box->sent;
            offered = head->frame->size - box->sent;
            sent = sendfile(fd, head->frame->file, &at, offered);
        } else {
            size_t size = 0;
            int cork = 0;
            for (unsigned i = 0; i < box->count && !cork; i++) {
                const Letter *next = &box->letters[(box->first + i) % box->room];
                cork = next->frame->file >= 0;
                size_t part = cork ? prefix : next->frame->size;
                if (size + part > sizeof buffer) break;
                memcpy(buffer + size, next->frame->data, part);
                set32(buffer + size + next->frame->id_at, next->id);
                size += part;
            }
            offered = size - box->sent;
            sent = send(fd, buffer + box->sent, offered, MSG_NOSIGNAL | (cork ? MSG_MORE : 0));
        }
        if (sent < 0) {
            if (errno == EAGAIN || errno == EINTR) return total;
            return -1;
        }
        outbox_advance(box, sent);
        total += sent;
        if ((size_t)sent < offered) return total;
    }
    return total;
}
#endif
