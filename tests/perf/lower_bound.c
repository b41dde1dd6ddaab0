/* The least work a client can do: a closed loop of keep-alive streams, one stamp a read, tokens counted by a search.
   It keeps no rows, checks nothing and knows one server; it says what the machine costs, not what a tool should do.

   cc -O2 -o lower_bound lower_bound.c
   lower_bound PORT STREAMS REQUESTS TOKENS    (prints JSON) */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

typedef struct { int fd; int64_t sent_ns, first_ns, last_ns; } Stream;

static double *ttfts_ms, *gaps_ms;
static size_t ttfts, gaps, room;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_value(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }

static double percentile(double *values, size_t count, double q) { return count ? values[(size_t)(q * (count - 1))] : 0; }

static double cpu_s(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void ask(Stream *s, const char *request, int length) {
    s->first_ns = 0;
    s->sent_ns = now_ns();
    if (send(s->fd, request, length, MSG_NOSIGNAL) != length) { perror("send"); exit(1); }
}

static void stamp(Stream *s, const char *data, const char *end, int64_t at_ns) {
    while ((data = memmem(data, end - data, "\"content\":\"", 11))) {
        if (!s->first_ns) { s->first_ns = at_ns; ttfts_ms[ttfts++] = (at_ns - s->sent_ns) / 1e6; }
        else if (gaps < room) gaps_ms[gaps++] = (at_ns - s->last_ns) / 1e6;
        s->last_ns = at_ns;
        data += 11;
    }
}

int main(int count, char **arguments) {
    if (count != 5) { fputs("lower_bound PORT STREAMS REQUESTS TOKENS\n", stderr); return 2; }
    int port = atoi(arguments[1]), streams = atoi(arguments[2]), requests = atoi(arguments[3]), tokens = atoi(arguments[4]);
    char body[256], request[512];
    int body_length = snprintf(body, sizeof body, "{\"model\":\"timing\",\"stream\":true,\"max_tokens\":%d,\"messages\":"
                               "[{\"role\":\"user\",\"content\":\"Say something about the weather on the moon\"}]}", tokens);
    int length = snprintf(request, sizeof request, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                          "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", body_length, body);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    room = (size_t)requests * tokens;
    gaps_ms = malloc(room * sizeof *gaps_ms);
    ttfts_ms = malloc(requests * sizeof *ttfts_ms);
    Stream *all = calloc(streams, sizeof *all);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int epoll_fd = epoll_create1(0), sent = 0, done = 0, yes = 1;
    for (int i = 0; i < streams; i++) {
        all[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(all[i].fd, (void *)&address, sizeof address)) { perror("connect"); return 1; }
        setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, all[i].fd, &(struct epoll_event){.events = EPOLLIN, .data.u32 = i});
    }
    for (; sent < streams && sent < requests; sent++) ask(&all[sent], request, length);
    static struct epoll_event events[512];
    static char data[1 << 18];
    while (done < requests) {
        int n = epoll_wait(epoll_fd, events, 512, 5000);
        if (n <= 0) { fputs("the server fell silent\n", stderr); return 1; }
        for (int i = 0; i < n; i++) {
            Stream *s = &all[events[i].data.u32];
            ssize_t got = recv(s->fd, data, sizeof data, MSG_DONTWAIT);
            int64_t at_ns = now_ns();
            if (got <= 0) continue;
            stamp(s, data, data + got, at_ns);
            if (got < 7 || memcmp(data + got - 7, "\r\n0\r\n\r\n", 7)) continue;
            done++;
            if (sent < requests) { sent++; ask(s, request, length); }
        }
    }
    qsort(ttfts_ms, ttfts, sizeof *ttfts_ms, by_value);
    qsort(gaps_ms, gaps, sizeof *gaps_ms, by_value);
    printf("{\"tokens\": %zu, \"cpu_s\": %.4f, \"ttft_p99_ms\": %.4f, \"gap_p99_ms\": %.4f}\n", ttfts + gaps, cpu_s(),
           percentile(ttfts_ms, ttfts, 0.99), percentile(gaps_ms, gaps, 0.99));
    return 0;
}
