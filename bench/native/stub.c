/* A stub broker: answers each request of the benchmark by its API key and version, with frames made beforehand.
 *
 *   stub PORT      listens on 127.0.0.1 and on the addresses of its ten brokers; prints "ready"; ends by a signal
 */
#include "outbox.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>

enum { HEAD = 14 + CLIENT_ID, WHOLE = 512, WAITING = 256, EVENTS = 512 }; /* WHOLE: the longest ApiVersions request */

typedef struct {
    int fd, listening, blocked;
    int node;               /* which of the brokers it came to */
    size_t skip;            /* bytes of the current request that are still to come */
    const Frame *answer;    /* due when they have */
    uint32_t answer_id;
    uint8_t head[WHOLE];    /* the beginning of a request */
    size_t have;
    Outbox out;
} Connection;

static int poller, port;
static Frame *known[256];
static int known_count;

static const Frame *response_for(Shape s) {
    if (s.api != FETCH) s.bytes = 0;
    for (int i = 0; i < known_count; i++)
        if (!memcmp(&known[i]->shape, &s, sizeof s)) return known[i];
    if (known_count == 256) known_count = 255; /* the last place is used again; its frame may still be under way */
    return known[known_count++] = make_response(&s, port);
}

static int served(int api, int version) {
    switch (api) {
    case PRODUCE: return version >= 9 && version <= 12;
    case FETCH: return version >= 12 && version <= 17;
    case LIST_OFFSETS: return version == 7;
    case METADATA: return version == 1 || version == 2 || (version >= 10 && version <= 12);
    case API_VERSIONS: return version >= 0 && version <= 5;
    case DESCRIBE_CONFIGS: return version == 1;
    }
    return 0;
}

/* Whether this is the broker that an ApiVersions request of version 5 expects, if it expects one (KIP-1242). */
static int is_expected(const Connection *c, const uint8_t *p, size_t size) {
    size_t client_id = p[12] << 8 | p[13], at = 14 + (client_id == 0xffff ? 0 : client_id) + 1;
    /* A compact string shorter than 127 bytes begins with the size of both: behind the software's name and version. */
    for (int i = 0; i < 2; i++) at += at < size ? p[at] : 0;
    if (at >= size) return 0;
    size_t node_at = at + (p[at] ? p[at] : 1);
    if (node_at + 4 > size) return 0;
    if (!p[at]) return be32(p + node_at) == UINT32_MAX; /* null, and -1 */
    return p[at] == sizeof CLUSTER && !memcmp(p + at + 1, CLUSTER, sizeof CLUSTER - 1)
        && be32(p + node_at) == (uint32_t)c->node;
}

/* Look at the beginning of a request; returns its size with the size field, 0 if more is needed. */
static size_t begin(Connection *c, const uint8_t *p, size_t have) {
    if (have < 14) return 0;
    size_t size = (size_t)be32(p) + 4;
    if (have < HEAD && have < size) return 0;
    Shape s;
    memset(&s, 0, sizeof s); /* shapes are compared as bytes */
    s.api = p[4] << 8 | p[5], s.version = p[6] << 8 | p[7], s.partitions = 1;
    if ((p[12] << 8 | p[13]) == CLIENT_ID && !memcmp(p + 14, "bench-", 6)) {
        char client_id[CLIENT_ID + 1] = {0};
        memcpy(client_id, p + 14, CLIENT_ID);
        s.partitions = atoi(client_id + 6);
        s.bytes = atol(client_id + 13);
    }
    if (s.api == DESCRIBE_CONFIGS) s.partitions = c->node;
    int whole = s.api == API_VERSIONS && size <= WHOLE;
    if (whole && have < size) return 0;
    if (whole) s.partitions = s.version < 5 || is_expected(c, p, size);
    if (!served(s.api, s.version) || size < 14 || (s.api == API_VERSIONS && !whole)) {
        fprintf(stderr, "stub broker: no answer for API key %d version %d\n", s.api, s.version);
        return SIZE_MAX;
    }
    c->answer = response_for(s);
    c->answer_id = be32(p + 8);
    return size;
}

/* Take what the client sent. Returns 0 if the connection is to be closed. */
static int take(Connection *c) {
    static uint8_t buffer[WHOLE + 256 * 1024];
    if (c->skip > 64 * 1024) {
        ssize_t got = recv(c->fd, buffer, c->skip, MSG_TRUNC); /* discards without copying */
        if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
        c->skip -= got;
        if (!c->skip) outbox_put(&c->out, c->answer, c->answer_id);
        return 1;
    }
    memcpy(buffer, c->head, c->have);
    ssize_t got = recv(c->fd, buffer + c->have, sizeof buffer - c->have, 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    const uint8_t *p = buffer, *end = buffer + c->have + got;
    c->have = 0;
    while (p < end) {
        if (!c->skip && !(c->skip = begin(c, p, end - p))) {
            c->have = end - p;
            memcpy(c->head, p, c->have);
            return 1;
        }
        if (c->skip == SIZE_MAX) return 0;
        size_t part = (size_t)(end - p) < c->skip ? (size_t)(end - p) : c->skip;
        p += part;
        c->skip -= part;
        if (!c->skip) outbox_put(&c->out, c->answer, c->answer_id);
    }
    return 1;
}

static void watch(Connection *c, int how, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(poller, how, c->fd, &event)) die("epoll_ctl");
}

static void serve(Connection *c, uint32_t events) {
    int alive = 1;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) alive = take(c);
    if (alive && c->out.count) alive = outbox_flush(&c->out, c->fd) >= 0;
    if (!alive) {
        close(c->fd);
        free(c->out.letters);
        free(c);
        return;
    }
    int blocked = c->out.count > 0;
    if (blocked != c->blocked) {
        /* A broker does not read on while it has an answer to send. */
        watch(c, EPOLL_CTL_MOD, blocked ? EPOLLOUT : EPOLLIN);
        c->blocked = blocked;
    }
}

static void listen_on(const char *host, int node) {
    Connection *c = calloc(1, sizeof *c);
    c->node = node;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;
    inet_pton(AF_INET, host, &to.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    c->listening = 1;
    setsockopt(c->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(c->fd, (struct sockaddr *)&to, sizeof to) || listen(c->fd, 4096)) die(host);
    watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

static void accept_all(Connection *listener) {
    for (;;) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
        if (fd < 0) return;
        Connection *c = calloc(1, sizeof *c);
        if (!c) die("memory");
        c->fd = fd, c->node = listener->node;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        outbox_open(&c->out, WAITING);
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: stub PORT\n"), 2;
    port = atoi(argv[1]);
    signal(SIGPIPE, SIG_IGN); /* sendfile has no MSG_NOSIGNAL */
    poller = epoll_create1(EPOLL_CLOEXEC);
    char name[32];
    listen_on("127.0.0.1", 0);
    for (int i = 0; i < BROKERS; i++) host(name, sizeof name, i), listen_on(name, i);
    puts("ready");
    fflush(stdout);
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            Connection *c = events[i].data.ptr;
            if (c->listening) accept_all(c); else serve(c, events[i].events);
        }
    }
}
