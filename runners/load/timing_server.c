/* A server of known timing, to calibrate the load engine and to measure load generators against.

   POST /v1/chat/completions (HTTP/1.1, keep-alive) streams N tokens as chunked server-sent events: token k is due at
   arrival + ttft + k * itl, whatever happened before, so nothing drifts. Arrival is the kernel's receive stamp of the
   request. The text of a token is the CLOCK_MONOTONIC time at which it was handed to the socket, in ns, and a space; before
   that of the first one stands the arrival. One thread, one epoll, a binary heap of due times. At SIGTERM, or where
   --ends-with-input 1 asks for it when its input closes, it ends, and writes what it really did as JSON.

   timing_server --ttft-ms 50 --itl-ms 10 --truth FILE    (prints its port; --port 0 takes a free one) */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_STREAMS = 65536, REQUEST_BYTES = 1 << 20, OUT_BYTES = 2048 };

typedef struct {
    int fd, tokens, sent;
    int64_t arrival_ns, last_ns;
    char *in, out[OUT_BYTES];
    size_t in_length;
} Stream;

typedef struct { int64_t due_ns, arrival_ns; int fd; } Due; /* arrival_ns tells a stream from a later one on the same fd */
typedef struct { double *values; size_t count, room; } Series;

static Stream *streams[MAX_STREAMS];
static Due heap[MAX_STREAMS];
static int heap_size, epoll_fd, timer_fd, in_flight, peak_in_flight;
static int64_t ttft_ns, itl_ns, wall_offset_ns, requests, tokens_sent, first_arrival_ns, last_send_ns;
static Series ttfts_ms, gaps_ms, late_ms;
static volatile sig_atomic_t stopped;

static int64_t clock_ns(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static void measure_offset(void) {
    int64_t before = now_ns(), wall = clock_ns(CLOCK_REALTIME), after = now_ns();
    wall_offset_ns = wall - (before + after) / 2;
}

static void add(Series *series, double value) {
    if (series->count == series->room) {
        series->room = series->room ? series->room * 2 : 65536;
        series->values = realloc(series->values, series->room * sizeof *series->values);
    }
    series->values[series->count++] = value;
}

/* heap of due times */

static void swap(int a, int b) { Due t = heap[a]; heap[a] = heap[b]; heap[b] = t; }

static void push(int64_t due_ns, Stream *s) {
    int i = heap_size++;
    heap[i] = (Due){due_ns, s->arrival_ns, s->fd};
    while (i && heap[(i - 1) / 2].due_ns > heap[i].due_ns) { swap(i, (i - 1) / 2); i = (i - 1) / 2; }
}

static Due pop(void) {
    Due top = heap[0];
    heap[0] = heap[--heap_size];
    for (int i = 0;;) {
        int least = i, left = 2 * i + 1, right = left + 1;
        if (left < heap_size && heap[left].due_ns < heap[least].due_ns) least = left;
        if (right < heap_size && heap[right].due_ns < heap[least].due_ns) least = right;
        if (least == i) return top;
        swap(i, least);
        i = least;
    }
}

/* connections */

static void forget(int fd) {
    if (streams[fd]->tokens) in_flight--;
    free(streams[fd]->in);
    free(streams[fd]);
    streams[fd] = NULL;
    close(fd);
}

static void welcome(int listener) {
    int fd, yes = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MAX_STREAMS) { close(fd); continue; }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        streams[fd] = calloc(1, sizeof(Stream));
        streams[fd]->fd = fd;
        streams[fd]->in = malloc(REQUEST_BYTES + 1);
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = fd});
    }
}

static void answer_page(Stream *s) {
    const char *body = "{\"object\":\"list\",\"data\":[{\"id\":\"timing\"}]}";
    char text[256];
    int n = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     strlen(body), body);
    if (send(s->fd, text, n, MSG_NOSIGNAL) < 0) return;
}

static void begin(Stream *s, const char *body, int64_t arrival_ns) {
    const char *asked = strstr(body, "\"max_tokens\":");
    const char *head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    s->tokens = asked ? atoi(asked + 13) : 16;
    s->sent = 0;
    s->arrival_ns = arrival_ns;
    if (!first_arrival_ns) first_arrival_ns = arrival_ns;
    if (++in_flight > peak_in_flight) peak_in_flight = in_flight;
    if (send(s->fd, head, strlen(head), MSG_NOSIGNAL) >= 0) push(arrival_ns + ttft_ns, s);
}

/* Takes whole requests out of what was received. */
static void parse(Stream *s, int64_t arrival_ns) {
    for (;;) {
        s->in[s->in_length] = 0;
        char *end = strstr(s->in, "\r\n\r\n");
        if (!end) return;
        char *length = strcasestr(s->in, "content-length:");
        size_t head = end + 4 - s->in, body = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
        if (s->in_length < head + body) return;
        if (!strncmp(s->in, "POST", 4)) begin(s, s->in + head, arrival_ns);
        else answer_page(s);
        s->in_length -= head + body;
        memmove(s->in, s->in + head + body, s->in_length);
    }
}

static void receive(Stream *s) {
    char control[64];
    struct iovec part = {s->in + s->in_length, REQUEST_BYTES - s->in_length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(s->fd, &message, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) { forget(s->fd); return; }
    int64_t arrival_ns = now_ns();
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(c), sizeof t);
            arrival_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - wall_offset_ns;
        }
    s->in_length += n;
    parse(s, arrival_ns);
}

static int event(char *out, const char *data) { return sprintf(out, "%zx\r\ndata: %s\n\n\r\n", strlen(data) + 8, data); }

static int write_token(char *out, const Stream *s, int64_t at_ns) {
    char arrival[32] = "", data[OUT_BYTES / 2];
    if (!s->sent) snprintf(arrival, sizeof arrival, "%ld ", (long)s->arrival_ns);
    snprintf(data, sizeof data,
             "{\"id\":\"timing\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"timing\",\"choices\":"
             "[{\"index\":0,\"delta\":{\"content\":\"%s%ld \"},\"finish_reason\":null}]}", arrival, (long)at_ns);
    return event(out, data);
}

static int write_end(char *out, int tokens) {
    char usage[256];
    snprintf(usage, sizeof usage,
             "{\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":%d,\"total_tokens\":%d}}", tokens, tokens + 16);
    int n = event(out, "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}");
    n += event(out + n, usage);
    n += event(out + n, "[DONE]");
    return n + sprintf(out + n, "0\r\n\r\n");
}

static void send_token(Due due) {
    Stream *s = streams[due.fd];
    if (!s || !s->tokens || s->arrival_ns != due.arrival_ns) return;
    int64_t at_ns = now_ns();
    int n = write_token(s->out, s, at_ns);
    if (s->sent + 1 == s->tokens) n += write_end(s->out + n, s->tokens);
    if (send(s->fd, s->out, n, MSG_NOSIGNAL) != n) { forget(due.fd); return; }
    add(&late_ms, (at_ns - due.due_ns) / 1e6);
    if (!s->sent) add(&ttfts_ms, (at_ns - s->arrival_ns) / 1e6);
    else add(&gaps_ms, (at_ns - s->last_ns) / 1e6);
    s->last_ns = last_send_ns = at_ns;
    tokens_sent++;
    if (++s->sent < s->tokens) { push(s->arrival_ns + ttft_ns + s->sent * itl_ns, s); return; }
    s->tokens = 0;
    in_flight--;
    requests++;
}

/* what it really did */

static int by_value(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }

static void write_series(FILE *f, const char *name, Series *s) {
    double sum = 0;
    qsort(s->values, s->count, sizeof *s->values, by_value);
    for (size_t i = 0; i < s->count; i++) sum += s->values[i];
    if (!s->count) { fprintf(f, "\"%s\": null", name); return; }
    double *v = s->values;
    size_t last = s->count - 1;
    fprintf(f, "\"%s\": {\"n\": %zu, \"mean\": %.6f, \"p50\": %.6f, \"p99\": %.6f, \"max\": %.6f}", name, s->count,
            sum / s->count, v[(size_t)(0.5 * last)], v[(size_t)(0.99 * last)], v[last]);
}

static void write_truth(const char *path) {
    FILE *f = fopen(path, "w");
    if (!f) return;
    fprintf(f, "{\"requests\": %ld, \"tokens\": %ld, \"peak_in_flight\": %d, \"seconds\": %.6f,\n", (long)requests,
            (long)tokens_sent, peak_in_flight, (last_send_ns - first_arrival_ns) / 1e9);
    write_series(f, "ttft_ms", &ttfts_ms);
    fputs(",\n", f);
    write_series(f, "gap_ms", &gaps_ms);
    fputs(",\n", f);
    write_series(f, "late_ms", &late_ms);
    fputs("}\n", f);
    fclose(f);
}

static void on_stop(int number) { (void)number; stopped = 1; }

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes); /* for connections too, before they are accepted */
    if (bind(fd, (void *)&address, sizeof address) || listen(fd, 8192)) { perror("listen"); exit(1); }
    getsockname(fd, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void wait_for_events(int listener) {
    static struct epoll_event events[1024];
    if (heap_size) {
        int64_t at = heap[0].due_ns;
        struct itimerspec alarm = {.it_value = {at / 1000000000, at % 1000000000}};
        timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &alarm, NULL);
    }
    int n = epoll_wait(epoll_fd, events, 1024, heap_size && heap[0].due_ns <= now_ns() ? 0 : 100);
    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd;
        uint64_t ticks;
        if (fd == STDIN_FILENO) stopped = 1;
        else if (fd == listener) welcome(listener);
        else if (fd == timer_fd) { if (read(timer_fd, &ticks, sizeof ticks) < 0) continue; }
        else if (streams[fd]) receive(streams[fd]);
    }
}

int main(int count, char **arguments) {
    const char *truth = NULL;
    int port = 0, ends_with_input = 0;
    double ttft_ms = 50, itl_ms = 10;
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--port")) port = atoi(arguments[i + 1]);
        else if (!strcmp(arguments[i], "--ttft-ms")) ttft_ms = atof(arguments[i + 1]);
        else if (!strcmp(arguments[i], "--itl-ms")) itl_ms = atof(arguments[i + 1]);
        else if (!strcmp(arguments[i], "--ends-with-input")) ends_with_input = atoi(arguments[i + 1]);
        else if (!strcmp(arguments[i], "--truth")) truth = arguments[i + 1];
        else { fprintf(stderr, "unknown option %s\n", arguments[i]); return 2; }
    }
    ttft_ns = ttft_ms * 1e6;
    itl_ns = itl_ms * 1e6;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGTERM, on_stop);
    signal(SIGINT, on_stop);
    epoll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    int listener = listen_on(port);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.fd = listener});
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = timer_fd});
    if (ends_with_input)
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &(struct epoll_event){.events = EPOLLIN, .data.fd = STDIN_FILENO});
    while (!stopped) {
        measure_offset();
        wait_for_events(listener);
        for (int batch = 0; batch < 64 && heap_size && heap[0].due_ns <= now_ns(); batch++) send_token(pop());
    }
    if (truth) write_truth(truth);
    return 0;
}
