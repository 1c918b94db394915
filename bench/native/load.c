/* The load generator: many connections with requests of one kind, as fast as answers come. Before them, each asks for
 * ApiVersions, as clients do.
 *
 *   load run      requests on every connection for a while, then one line of JSON with the figures
 *   load connect  as run, but every connection carries one request, after the answer to ApiVersions, and is closed
 *   load hold     one request on every connection, prints "holding", and waits for the end of stdin
 *   load stall    one request on every connection, prints "stalled" without reading; reads at the first line on
 *                 stdin, compares every byte, and prints one line of JSON
 *
 *   --to PORT --api N --version N --partitions N --bytes N   what is asked
 *   --connections N --depth N                                on how many, requests in flight on each
 *   --warm SECONDS --seconds SECONDS                         before, and in, the window that is measured
 *   --cpu PID (repeatable)                                   whose CPU time to take at both ends of the window
 *   --verify                                                 compare every byte of every answer
 */
#include "outbox.h"
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>

enum { EVENTS = 512, CHUNK = 256 * 1024, SAMPLES = 1 << 22, PIDS = 32, CORES = 64, CONNECTING = 128 };

typedef struct {
    int fd, open, blocked, greeting; /* greeting: the answer to ApiVersions is due */
    uint32_t next_id, due_id; /* of the next request, and of the next answer */
    size_t left;              /* bytes of the current answer that are still to come */
    size_t at;                /* and how many have come */
    uint8_t head[8];
    unsigned have;
    double began;
    Outbox out;
} Connection;

static struct {
    Shape shape;
    int to, connections, depth, verify, one_each;
    double warm, seconds;
    pid_t pids[PIDS];
    int pid_count;
} option = {.shape = {FETCH, 12, 1, 1024}, .connections = 1, .depth = 1, .warm = 0.1, .seconds = 0.5};

static int poller, connecting, next_to_open, opened;
static Connection *connections;
static Frame *request, *expected, *greeting;
static int measuring, stopping, paused; /* paused: nothing is read */
static uint64_t frames, bytes, answered;
static float *latencies;
static size_t latency_count;

static double now(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double cpu_of(pid_t pid) {
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) ? 0 : now(clock);
}

/* Seconds that a process wanted to run and had to wait for its core. */
static double waited_by(pid_t pid) {
    char path[64];
    unsigned long long ran, waited = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%llu %llu", &ran, &waited) != 2) waited = 0;
    if (file) fclose(file);
    return waited * 1e-9;
}

/* Seconds that each core was idle so far, and in the last place those that the hypervisor took. */
static int idle_times(double *idle) {
    static char line[1024];
    int count = 0;
    double stolen = 0;
    FILE *stat = fopen("/proc/stat", "r");
    while (stat && fgets(line, sizeof line, stat) && count < CORES) {
        unsigned long long idle_ticks, wait_ticks, steal_ticks;
        if (sscanf(line, "cpu%*[0-9] %*u %*u %*u %llu %llu %*u %*u %llu", &idle_ticks, &wait_ticks, &steal_ticks) != 3)
            continue;
        idle[count++] = (idle_ticks + wait_ticks) / (double)sysconf(_SC_CLK_TCK);
        stolen += steal_ticks / (double)sysconf(_SC_CLK_TCK);
    }
    if (stat) fclose(stat);
    idle[count] = stolen;
    return count;
}

static void watch(Connection *c, int how, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(poller, how, c->fd, &event)) die("epoll_ctl");
}

static void fail(Connection *c, const char *what) {
    fprintf(stderr, "connection %d: %s\n", (int)(c - connections), what);
    exit(1);
}

static void ask(Connection *c, int count) {
    if (!count) return;
    while (count-- > 0) outbox_put(&c->out, request, c->next_id++);
    if (option.depth == 1 && !option.one_each) c->began = now(CLOCK_MONOTONIC);
}

static void flush(Connection *c) {
    ssize_t sent = outbox_flush(&c->out, c->fd);
    if (sent < 0) fail(c, "closed by the proxy while sending");
    if (measuring) bytes += sent;
    int blocked = c->out.count > 0;
    if (blocked != c->blocked) {
        watch(c, EPOLL_CTL_MOD, (paused ? 0 : EPOLLIN) | (blocked ? EPOLLOUT : 0));
        c->blocked = blocked;
    }
}

static void open_one(Connection *c) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(option.to)};
    int on = 1;
    Outbox out = c->out;
    memset(c, 0, sizeof *c);
    c->out = out;
    c->began = now(CLOCK_MONOTONIC);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) die("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) die("connect");
    watch(c, EPOLL_CTL_ADD, EPOLLOUT);
    c->blocked = 1;
    connecting++;
}

static void open_more(void) {
    while (next_to_open < option.connections && connecting < CONNECTING) open_one(&connections[next_to_open++]);
}

/* A whole answer has come. */
static void finished(Connection *c) {
    answered++;
    if (measuring) {
        frames++;
        if (latencies && option.depth == 1 && latency_count < SAMPLES)
            latencies[latency_count++] = now(CLOCK_MONOTONIC) - c->began;
    }
}

/* Take what came. Returns how many answers were completed. */
static int take(Connection *c) {
    static uint8_t buffer[CHUNK];
    int done = 0;
    if (c->left > 64 * 1024 && !option.verify) {
        ssize_t got = recv(c->fd, buffer, c->left, MSG_TRUNC); /* discards without copying */
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (got <= 0) fail(c, "closed by the proxy");
        if (measuring) bytes += got;
        if (!(c->left -= got)) finished(c), done = 1;
        return done;
    }
    ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) fail(c, "closed by the proxy");
    if (measuring) bytes += got;
    const uint8_t *p = buffer, *end = buffer + got;
    while (p < end) {
        if (!c->left) {
            while (c->have < 8 && p < end) c->head[c->have++] = *p++;
            if (c->have < 8) break;
            c->have = 0;
            if (be32(c->head + 4) != c->due_id) fail(c, "an answer with another correlation id than the next");
            if (c->due_id == c->next_id) fail(c, "an answer that nothing asked for");
            c->due_id++;
            c->left = be32(c->head) - 4;
            c->at = 8;
            if (option.verify && !c->greeting && c->left + 8 != expected->size) fail(c, "an answer of another size");
        }
        size_t part = (size_t)(end - p) < c->left ? (size_t)(end - p) : c->left;
        if (option.verify && !c->greeting && memcmp(p, expected->data + c->at, part)) fail(c, "an answer with other bytes");
        p += part;
        c->at += part;
        if (c->left -= part) continue;
        if (c->greeting) {
            c->greeting = 0;
            if (option.one_each) ask(c, 1);
        } else finished(c), done++;
    }
    return done;
}

static void serve(Connection *c, uint32_t events) {
    if (!c->open) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) fail(c, strerror(error));
        c->open = 1;
        connecting--, opened++;
        outbox_put(&c->out, greeting, c->next_id++), c->greeting = 1;
        if (!option.one_each) ask(c, option.depth); /* without the round trip, which no window has */
        flush(c);
        if (!c->blocked) return;
        watch(c, EPOLL_CTL_MOD, (paused ? 0 : EPOLLIN) | EPOLLOUT);
    }
    if (events & EPOLLIN && !paused) {
        int done = take(c);
        if (done && option.one_each) {
            close(c->fd);
            if (!stopping) open_one(c);
            return;
        }
        if (!stopping) ask(c, done);
    }
    if (c->out.count) flush(c);
}

static void step(double until) {
    struct epoll_event events[EVENTS];
    open_more();
    double wait = until - now(CLOCK_MONOTONIC);
    int count = epoll_wait(poller, events, EVENTS, wait > 0 ? (int)(wait * 1000) + 1 : 0);
    for (int i = 0; i < count; i++) serve(events[i].data.ptr, events[i].events);
}

static int ascending(const void *a, const void *b) {
    return (*(const float *)a > *(const float *)b) - (*(const float *)a < *(const float *)b);
}

static double percentile(double share) {
    size_t i = share * latency_count;
    return latency_count ? latencies[i < latency_count ? i : latency_count - 1] * 1e6 : 0;
}

static void print_all(const char *name, const double *values, int count) {
    printf(", \"%s\": [", name);
    for (int i = 0; i < count; i++) printf("%s%.6f", i ? ", " : "", values[i]);
    printf("]");
}

static void run(void) {
    double cpu[PIDS], waited[PIDS], idle[CORES + 1], end_idle[CORES + 1];
    latencies = malloc(SAMPLES * sizeof *latencies);
    if (!latencies) die("memory");
    while (opened < option.connections) step(now(CLOCK_MONOTONIC) + 1);
    double warm = now(CLOCK_MONOTONIC) + option.warm;
    while (now(CLOCK_MONOTONIC) < warm) step(warm);
    double begin = now(CLOCK_MONOTONIC), end = begin + option.seconds, own = now(CLOCK_PROCESS_CPUTIME_ID);
    double own_waited = waited_by(getpid());
    for (int i = 0; i < option.pid_count; i++) cpu[i] = cpu_of(option.pids[i]), waited[i] = waited_by(option.pids[i]);
    int cores = idle_times(idle);
    measuring = 1;
    while (now(CLOCK_MONOTONIC) < end) step(end);
    measuring = 0;
    double seconds = now(CLOCK_MONOTONIC) - begin;
    own = now(CLOCK_PROCESS_CPUTIME_ID) - own;
    for (int i = 0; i < option.pid_count; i++) cpu[i] = cpu_of(option.pids[i]) - cpu[i];
    for (int i = 0; i < option.pid_count; i++) waited[i] = waited_by(option.pids[i]) - waited[i];
    own_waited = waited_by(getpid()) - own_waited;
    idle_times(end_idle);
    qsort(latencies, latency_count, sizeof *latencies, ascending);
    for (int i = 0; i < cores; i++) idle[i] = end_idle[i] - idle[i];
    printf("{\"seconds\": %.6f, \"frames\": %lu, \"bytes\": %lu", seconds, frames, bytes);
    printf(", \"own_cpu\": %.6f, \"own_waited\": %.6f", own, own_waited);
    print_all("cpu", cpu, option.pid_count);
    print_all("waited", waited, option.pid_count);
    print_all("idle", idle, cores);
    printf(", \"stolen\": %.2f, \"p50\": %.2f, \"p99\": %.2f, \"p999\": %.2f}\n", end_idle[cores] - idle[cores],
           percentile(.5), percentile(.99), percentile(.999));
    exit(0); /* without waiting for what is in flight */
}

static void wait_for_line(void) {
    char line[16];
    if (!fgets(line, sizeof line, stdin)) exit(0);
}

static void hold(void) {
    stopping = 1;
    while (opened < option.connections || answered < (uint64_t)option.connections * option.depth)
        step(now(CLOCK_MONOTONIC) + 1);
    puts("holding");
    fflush(stdout);
    wait_for_line();
}

static void stall(void) {
    stopping = 1;
    paused = 1;
    while (opened < option.connections) step(now(CLOCK_MONOTONIC) + 1);
    puts("stalled");
    fflush(stdout);
    wait_for_line();
    double begin = now(CLOCK_MONOTONIC);
    paused = 0;
    for (int i = 0; i < option.connections; i++)
        watch(&connections[i], EPOLL_CTL_MOD, EPOLLIN | (connections[i].blocked ? EPOLLOUT : 0));
    measuring = 1;
    while (answered < (uint64_t)option.connections * option.depth) step(now(CLOCK_MONOTONIC) + 1);
    printf("{\"seconds\": %.6f, \"frames\": %lu, \"bytes\": %lu}\n", now(CLOCK_MONOTONIC) - begin, frames, bytes);
}

static long value(void) {
    char *end;
    long v = strtol(optarg, &end, 10);
    if (*end || v < 0) exit((fprintf(stderr, "load: '%s' is not a number\n", optarg), 2));
    return v;
}

int main(int argc, char **argv) {
    static const struct option names[] = {
        {"to", 1, 0, 't'}, {"api", 1, 0, 'a'}, {"version", 1, 0, 'v'}, {"partitions", 1, 0, 'p'},
        {"bytes", 1, 0, 'b'}, {"connections", 1, 0, 'c'}, {"depth", 1, 0, 'd'}, {"warm", 1, 0, 'w'},
        {"seconds", 1, 0, 's'}, {"cpu", 1, 0, 'u'}, {"verify", 0, 0, 'y'}, {0, 0, 0, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) switch (c) {
        case 't': option.to = value(); break;
        case 'a': option.shape.api = value(); break;
        case 'v': option.shape.version = value(); break;
        case 'p': option.shape.partitions = value(); break;
        case 'b': option.shape.bytes = value(); break;
        case 'c': option.connections = value(); break;
        case 'd': option.depth = value(); break;
        case 'w': option.warm = atof(optarg); break;
        case 's': option.seconds = atof(optarg); break;
        case 'u': if (option.pid_count < PIDS) option.pids[option.pid_count++] = value(); break;
        case 'y': option.verify = 1; break;
        default: return 2;
    }
    const char *mode = optind < argc ? argv[optind] : "";
    signal(SIGPIPE, SIG_IGN); /* sendfile has no MSG_NOSIGNAL */
    poller = epoll_create1(EPOLL_CLOEXEC);
    request = make_request(&option.shape);
    greeting = make_request(&(Shape){API_VERSIONS, 3, 1, 0});
    connections = calloc(option.connections, sizeof *connections);
    if (!connections) die("memory");
    option.one_each = !strcmp(mode, "connect");
    if (!strcmp(mode, "stall")) option.verify = 1;
    if (option.verify) expected = make_response(&option.shape, 0);
    for (int i = 0; i < option.connections; i++) outbox_open(&connections[i].out, option.depth + 1);
    if (!strcmp(mode, "run") || option.one_each) run();
    else if (!strcmp(mode, "hold")) hold();
    else if (!strcmp(mode, "stall")) stall();
    else return fprintf(stderr, "load: run, connect, hold or stall, not '%s'\n", mode), 2;
    return 0;
}
