/* Kafka frames, made once and sent many times: of each, only the correlation id changes.
 *
 * Both sides are here, so that the load generator knows what the stub broker answers, byte by byte. How large an
 * answer shall be, the stub reads in the client id: "bench-PPPPPP-BBBBBBBBBB", partitions and bytes of records.
 *
 * Layouts: Kafka's message definitions. Records are opaque bytes in a field of the right length, as for any proxy.
 */
#ifndef FRAMES_H
#define FRAMES_H
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, LIST_OFFSETS = 2, METADATA = 3, API_VERSIONS = 18, DESCRIBE_CONFIGS = 32 };
enum { BROKERS = 10, PARTITIONS_PER_TOPIC = 100, CLIENT_ID = 23 };
/* Frames up to this size are copied into one buffer with their neighbours; larger ones go out by sendfile. */
enum { SMALL = 32 * 1024 };

static const char TOPIC[] = "bench-topic-15", CLUSTER[] = "bench-cluster-id-22chr";

typedef struct {
    int api, version, partitions;
    long bytes;
} Shape;

typedef struct {
    Shape shape;
    uint8_t *data; /* with the size field */
    size_t size;
    int id_at; /* where the correlation id stands */
    int file;  /* the same in a memory file if it is large, else -1 */
} Frame;

typedef struct {
    uint8_t *data;
    size_t size, room;
} Text;

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static inline uint32_t be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void set32(uint8_t *p, uint32_t v) {
    p[0] = v >> 24, p[1] = v >> 16, p[2] = v >> 8, p[3] = v;
}

static uint8_t *more(Text *t, size_t count) {
    if (t->size + count > t->room) {
        t->room = 2 * t->room + count + 256;
        if (!(t->data = realloc(t->data, t->room))) die("memory");
    }
    t->size += count;
    return t->data + t->size - count;
}

/* A big-endian integer of `width` bytes. */
static void number(Text *t, int width, int64_t value) {
    uint8_t *p = more(t, width);
    for (int i = width - 1; i >= 0; i--, value >>= 8) p[i] = value;
}

static void uvarint(Text *t, uint32_t value) {
    for (; value >= 0x80; value >>= 7) *more(t, 1) = value | 0x80;
    *more(t, 1) = value;
}

static void tags(Text *t) { uvarint(t, 0); }

static void text(Text *t, const char *s, int compact) {
    size_t n = strlen(s);
    if (compact) uvarint(t, n + 1); else number(t, 2, n);
    memcpy(more(t, n), s, n);
}

/* Bytes that repeat nowhere, so that a piece in the wrong place is seen. */
static void records(Text *t, long bytes, uint64_t seed) {
    uvarint(t, bytes + 1);
    uint8_t *p = more(t, bytes);
    uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
    for (long i = 0; i < bytes; i++) {
        if (i % 8 == 0) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        p[i] = x >> (i % 8 * 8);
    }
}

/* The share of partition i, so that all of them together have `bytes`. */
static long share(const Shape *s, int i) {
    return s->bytes * (i + 1) / s->partitions - s->bytes * i / s->partitions;
}

static void topic(Text *t, const Shape *s) {
    if (s->api == FETCH && s->version >= 13) memcpy(more(t, 16), "bench-topic-uuid", 16);
    else text(t, TOPIC, 1);
}

static void request_body(Text *t, const Shape *s) {
    tags(t); /* of request header v2 */
    switch (s->api) {
    case PRODUCE: /* v9 to v12 */
        uvarint(t, 0);      /* no transactional id */
        number(t, 2, 1);    /* acks */
        number(t, 4, 30000);
        uvarint(t, 2);
        topic(t, s);
        uvarint(t, s->partitions + 1);
        for (int i = 0; i < s->partitions; i++) number(t, 4, i), records(t, share(s, i), i), tags(t);
        tags(t), tags(t);
        break;
    case FETCH: /* v12 and v17, as of a fetch session in which nothing changes */
        if (s->version < 15) number(t, 4, -1); /* replica id */
        number(t, 4, 500), number(t, 4, 1), number(t, 4, 52428800), number(t, 1, 0);
        number(t, 4, 77), number(t, 4, 9); /* session id and epoch */
        uvarint(t, 1), uvarint(t, 1), uvarint(t, 1), tags(t); /* no topics, none forgotten, no rack */
        break;
    case LIST_OFFSETS: /* v7 */
        number(t, 4, -1), number(t, 1, 0);
        uvarint(t, 2), topic(t, s), uvarint(t, 2);
        number(t, 4, 0), number(t, 4, -1), number(t, 8, -1), tags(t), tags(t), tags(t);
        break;
    case METADATA: /* v12: all topics */
        uvarint(t, 0), number(t, 1, 0), number(t, 1, 0), tags(t);
        break;
    case API_VERSIONS: /* v3 */
        text(t, "bench", 1), text(t, "1", 1), tags(t);
        break;
    }
}

static void host(char *out, size_t size, int node) { snprintf(out, size, "127.0.0.%d", 10 + node); }

static void metadata(Text *t, const Shape *s, int port) {
    char name[32];
    number(t, 4, 0), uvarint(t, BROKERS + 1);
    for (int i = 0; i < BROKERS; i++) {
        host(name, sizeof name, i);
        number(t, 4, i), text(t, name, 1), number(t, 4, port), uvarint(t, 0), tags(t);
    }
    text(t, CLUSTER, 1), number(t, 4, 0);
    int topics = (s->partitions + PARTITIONS_PER_TOPIC - 1) / PARTITIONS_PER_TOPIC;
    uvarint(t, topics + 1);
    for (int i = 0, left = s->partitions; i < topics; i++) {
        int count = left < PARTITIONS_PER_TOPIC ? left : PARTITIONS_PER_TOPIC;
        left -= count;
        snprintf(name, sizeof name, "orders-of-%05d", i);
        number(t, 2, 0), text(t, name, 1), memset(more(t, 16), i + 1, 16), number(t, 1, 0);
        uvarint(t, count + 1);
        for (int p = 0; p < count; p++) {
            number(t, 2, 0), number(t, 4, p), number(t, 4, p % BROKERS), number(t, 4, 7);
            for (int copies = 0; copies < 2; copies++) { /* replicas, in-sync replicas */
                uvarint(t, 4);
                for (int r = 0; r < 3; r++) number(t, 4, (p + r) % BROKERS);
            }
            uvarint(t, 1), tags(t); /* no offline replicas */
        }
        number(t, 4, INT32_MIN), tags(t);
    }
    tags(t);
}

static void response_body(Text *t, const Shape *s, int port) {
    char name[32];
    if (s->api != API_VERSIONS && !(s->api == METADATA && s->version < 9) && s->api != DESCRIBE_CONFIGS)
        tags(t); /* of response header v1 */
    switch (s->api) {
    case PRODUCE:
        uvarint(t, 2), topic(t, s), uvarint(t, s->partitions + 1);
        for (int i = 0; i < s->partitions; i++) {
            number(t, 4, i), number(t, 2, 0), number(t, 8, 1234567), number(t, 8, -1), number(t, 8, 0);
            uvarint(t, 1), uvarint(t, 0), tags(t); /* no record errors, no message */
        }
        tags(t), number(t, 4, 0), tags(t);
        break;
    case FETCH:
        number(t, 4, 0), number(t, 2, 0), number(t, 4, 77);
        uvarint(t, 2), topic(t, s), uvarint(t, s->partitions + 1);
        for (int i = 0; i < s->partitions; i++) {
            number(t, 4, i), number(t, 2, 0), number(t, 8, 1234567), number(t, 8, 1234567), number(t, 8, 0);
            uvarint(t, 0), number(t, 4, -1); /* no aborted transactions, no preferred replica */
            records(t, share(s, i), i), tags(t);
        }
        tags(t), tags(t);
        break;
    case LIST_OFFSETS:
        number(t, 4, 0), uvarint(t, 2), topic(t, s), uvarint(t, 2);
        number(t, 4, 0), number(t, 2, 0), number(t, 8, -1), number(t, 8, 1234567), number(t, 4, 3);
        tags(t), tags(t), tags(t);
        break;
    case METADATA:
        if (s->version >= 9) { metadata(t, s, port); break; }
        number(t, 4, BROKERS); /* v1 and v2, what a proxy asks itself */
        for (int i = 0; i < BROKERS; i++) {
            host(name, sizeof name, i);
            number(t, 4, i), text(t, name, 0), number(t, 4, port), number(t, 2, -1);
        }
        if (s->version >= 2) text(t, CLUSTER, 0);
        number(t, 4, 0), number(t, 4, 0);
        break;
    case API_VERSIONS: {
        static const int ranges[][3] = {
            {PRODUCE, 3, 12}, {FETCH, 4, 17}, {LIST_OFFSETS, 1, 9}, {METADATA, 0, 12},
            {API_VERSIONS, 0, 5}, {DESCRIBE_CONFIGS, 1, 4},
            /* As many as a broker of Kafka 4.4 has, so that a proxy has as much to read. No peer asks for these. */
            {8, 2, 10}, {9, 1, 10}, {10, 0, 6}, {11, 0, 9}, {12, 0, 4}, {13, 0, 5}, {14, 0, 5}, {15, 0, 6},
            {16, 0, 5}, {17, 0, 1}, {19, 2, 7}, {20, 1, 6}, {21, 0, 2}, {22, 0, 6}, {23, 2, 4}, {24, 0, 5},
            {25, 0, 4}, {26, 0, 5}, {27, 1, 2}, {28, 0, 6}, {29, 1, 3}, {30, 1, 3}, {31, 1, 3}, {33, 0, 2},
            {34, 1, 2}, {35, 1, 5}, {36, 0, 2}, {37, 0, 3}, {38, 1, 3}, {39, 1, 2}, {40, 1, 2}, {41, 1, 3},
            {42, 0, 3}, {43, 0, 2}, {44, 0, 1}, {45, 0, 1}, {46, 0, 0}, {47, 0, 0}, {48, 0, 1}, {49, 0, 1},
            {50, 0, 0}, {51, 0, 0}, {55, 0, 2}, {57, 0, 2}, {60, 0, 2}, {61, 0, 0}, {64, 0, 0}, {65, 0, 0},
            {66, 0, 2}, {68, 0, 1}, {69, 0, 1}, {71, 0, 0}, {72, 0, 0}, {74, 0, 1}, {75, 0, 0}, {76, 1, 1},
            {77, 1, 1}, {78, 1, 2}, {79, 1, 2}, {80, 0, 1}, {81, 0, 0}, {83, 0, 0}, {84, 0, 0}, {85, 0, 1},
            {86, 0, 0}, {87, 0, 1}, {88, 0, 1}, {89, 0, 1}, {90, 0, 1}, {91, 0, 0}, {92, 0, 0}, {93, 0, 0},
            {94, 0, 0},
        };
        int count = sizeof ranges / sizeof *ranges, compact = s->version >= 3;
        int refused = !s->partitions; /* the request expects another broker: REBOOTSTRAP_REQUIRED, and nothing else */
        if (refused) count = 0;
        number(t, 2, refused ? 129 : 0);
        if (compact) uvarint(t, count + 1); else number(t, 4, count);
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < 3; k++) number(t, 2, ranges[i][k]);
            if (compact) tags(t);
        }
        if (s->version >= 1) number(t, 4, 0);
        if (compact) tags(t);
        break;
    }
    case DESCRIBE_CONFIGS: /* v1: who a broker is, told in a refusal */
        number(t, 4, 0), number(t, 4, 1), number(t, 2, 42);
        char refusal[80];
        snprintf(refusal, sizeof refusal, "Unexpected broker id, expected %d or empty string", s->partitions);
        text(t, refusal, 0);
        number(t, 1, 4), text(t, "2147483647", 0), number(t, 4, 0);
        break;
    }
}

static Frame *finish(Text *t, const Shape *s, int id_at) {
    Frame *f = calloc(1, sizeof *f);
    if (!f) die("memory");
    set32(t->data, t->size - 4);
    *f = (Frame){*s, t->data, t->size, id_at, -1};
    if (f->size > SMALL) {
        f->file = memfd_create("frame", MFD_CLOEXEC);
        if (f->file < 0 || write(f->file, f->data, f->size) != (ssize_t)f->size) die("memfd");
    }
    return f;
}

static Frame *make_request(const Shape *s) {
    Text t = {0};
    char client_id[40];
    snprintf(client_id, sizeof client_id, "bench-%06d-%010ld", s->partitions, s->bytes);
    number(&t, 4, 0), number(&t, 2, s->api), number(&t, 2, s->version), number(&t, 4, 0);
    text(&t, client_id, 0);
    request_body(&t, s);
    return finish(&t, s, 8);
}

static Frame *make_response(const Shape *s, int port) {
    Text t = {0};
    number(&t, 4, 0), number(&t, 4, 0);
    response_body(&t, s, port);
    return finish(&t, s, 4);
}
#endif
