/* What runs for every token: waits, reads, stamps, and keeps whole chunks of answers; see receiver.py.

   Everything that is not a read of whole chunks is reported, with its bytes, and understood in Python. Times are
   CLOCK_MONOTONIC nanoseconds. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { AT_ONCE = 64, READ_BYTES = 65536, USUAL_BYTES = 4096, DELAYS = 65536, MOST_DESCRIPTORS = 65536 };
enum mode { LEAVE, READ, CHUNKS };
enum { NOTHING = INT32_MIN };

static const int64_t OFFSET_MAX_AGE_NS = 10000000, OFFSET_ERROR_NS = 50000, PLAUSIBLE_DELAY_NS = 5000000000;

/* From the kernel's CLOCK_REALTIME stamps to CLOCK_MONOTONIC. */
struct clock {
    int64_t offset_ns, measured_ns, replaced, kernel_stamps;
};

/* size: bytes read, 0 at the end of the stream, -errno, or NOTHING. kept: whether something waits to be taken. */
struct event {
    int32_t fd, size;
    uint32_t mask, kept;
    int64_t stamp_ns;
};

/* Whole chunks: for each read its struct record, and behind it the chunks' data. size is that of all data. */
struct kept {
    uint8_t *records;
    int64_t size, reads, bytes_in, capacity;
};

struct record {
    int64_t stamp_ns, size;
};

/* A read must touch few places: after a sleep each of them is out of every cache. */
struct stream {
    struct kept kept;
    int64_t floor_ns, bytes_left, told_in;
    enum mode mode;
};

/* Up to bytes: what Python reads. */
struct receiver {
    struct clock clock;
    int64_t ready, asleep_ns, delays;
    struct event events[AT_ONCE];
    int64_t delays_ns[DELAYS];
    uint8_t bytes[AT_ONCE][READ_BYTES];
    int epoll;
    int streams_capacity;
    struct stream *streams;
    int64_t waits;
};

static int64_t clock_ns(clockid_t which) {
    struct timespec at;
    clock_gettime(which, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

void clock_measure(struct clock *clock) {
    int64_t before = clock_ns(CLOCK_MONOTONIC), wall = clock_ns(CLOCK_REALTIME), after = clock_ns(CLOCK_MONOTONIC);
    clock->offset_ns = wall - (before + after) / 2;
    clock->measured_ns = after;
}

void clock_refresh(struct clock *clock, int64_t now_ns) {
    if (now_ns - clock->measured_ns > OFFSET_MAX_AGE_NS) clock_measure(clock);
}

int64_t clock_stamp(struct clock *clock, int64_t wall_ns, int64_t read_ns, int64_t floor_ns) {
    int64_t stamp = wall_ns - clock->offset_ns;
    if (floor_ns <= stamp && stamp <= read_ns && read_ns - stamp < PLAUSIBLE_DELAY_NS) {
        clock->kernel_stamps = 1;
        return stamp;
    }
    if (read_ns < stamp && stamp < read_ns + OFFSET_ERROR_NS) return read_ns;
    if (floor_ns - OFFSET_ERROR_NS < stamp && stamp < floor_ns) return floor_ns;
    clock->replaced++;
    clock_measure(clock);
    return read_ns;
}

/* How much Python reads: another number means that this was compiled from another version. */
int64_t receiver_size(void) { return offsetof(struct receiver, epoll); }

/* Grows the kernel's table of this process's descriptors now: while it has threads, each growth stops it for 10 to
   20 ms. */
static void make_room_for_descriptors(int fd) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    rlim_t most = limit.rlim_cur < MOST_DESCRIPTORS ? limit.rlim_cur : MOST_DESCRIPTORS;
    int last = fcntl(fd, F_DUPFD_CLOEXEC, (int)most - 1);
    if (last >= 0) close(last);
}

struct receiver *receiver_new(int epoll) {
    struct receiver *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->epoll = epoll;
    make_room_for_descriptors(epoll);
    clock_measure(&r->clock);
    return r;
}

void receiver_release(struct kept *kept) {
    free(kept->records);
    memset(kept, 0, sizeof *kept);
}

void receiver_free(struct receiver *r) {
    for (int fd = 0; fd < r->streams_capacity; fd++) receiver_release(&r->streams[fd].kept);
    free(r->streams);
    free(r);
}

static struct stream *stream(struct receiver *r, int fd) { return fd < r->streams_capacity ? &r->streams[fd] : NULL; }

/* From now on fd is read when it is ready. Nothing that comes was stamped before floor_ns. -1: out of memory. */
int receiver_read_from(struct receiver *r, int fd, int64_t floor_ns) {
    if (fd >= r->streams_capacity) {
        int capacity = fd * 2 + 64;
        struct stream *streams = realloc(r->streams, (size_t)capacity * sizeof *streams);
        if (!streams) return -1;
        memset(streams + r->streams_capacity, 0, (size_t)(capacity - r->streams_capacity) * sizeof *streams);
        r->streams = streams;
        r->streams_capacity = capacity;
    }
    struct stream *s = &r->streams[fd];
    if (s->mode == LEAVE) s->mode = READ;
    if (s->floor_ns < floor_ns) s->floor_ns = floor_ns;
    return 0;
}

/* The next byte of fd begins a chunk: reads of whole chunks are kept, until another kind of read is reported or
   bytes_left would be exceeded. */
void receiver_keep_chunks(struct receiver *r, int fd, int64_t bytes_left) {
    struct stream *s = stream(r, fd);
    s->mode = CHUNKS;
    s->bytes_left = bytes_left;
}

/* The stamp of its last bytes, or the floor_ns given since. */
int64_t receiver_heard_ns(struct receiver *r, int fd) {
    struct stream *s = stream(r, fd);
    return s ? s->floor_ns : 0;
}

void receiver_forget(struct receiver *r, int fd) {
    struct stream *s = stream(r, fd);
    if (!s) return;
    s->mode = LEAVE;
    s->floor_ns = 0;
    receiver_release(&s->kept);
}

/* Moves what was kept since the last take; whoever has it releases it. */
void receiver_take(struct receiver *r, int fd, struct kept *out) {
    struct stream *s = stream(r, fd);
    memset(out, 0, sizeof *out);
    if (!s || !s->kept.reads) return;
    *out = s->kept;
    memset(&s->kept, 0, sizeof s->kept);
}

/* Once: makes records the data alone, and gives the stamp of each read and how much of the body was there after it. */
void receiver_unpack(struct kept *kept, int64_t before_it, int64_t *stamps_ns, int64_t *ends) {
    int64_t from = 0, to = 0;
    for (int64_t i = 0; i < kept->reads; i++) {
        struct record record;
        memcpy(&record, kept->records + from, sizeof record);
        from += (int64_t)sizeof record;
        memmove(kept->records + to, kept->records + from, (size_t)record.size);
        from += record.size;
        to += record.size;
        stamps_ns[i] = record.stamp_ns;
        ends[i] = before_it + to;
    }
}

/* Where the next record goes: room for it and for bytes of data. NULL: out of memory. */
static uint8_t *room(struct kept *kept, int64_t bytes) {
    int64_t used = kept->size + kept->reads * (int64_t)sizeof(struct record);
    int64_t needed = used + (int64_t)sizeof(struct record) + bytes;
    if (needed > kept->capacity) {
        uint8_t *moved = realloc(kept->records, (size_t)needed * 2);
        if (!moved) return NULL;
        kept->records = moved;
        kept->capacity = needed * 2;
    }
    return kept->records + used;
}

static int digit(uint8_t c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The length of the chunk that begins there, and in *data where its data does; 0 when it is not whole, or the last. */
static int64_t chunk(const uint8_t *in, int64_t size, int64_t *data) {
    int64_t length = 0, at = 0;
    for (int value; at < size && at < 8 && (value = digit(in[at])) >= 0; at++) length = length * 16 + value;
    if (!length || size - at < length + 4) return 0;
    if (memcmp(in + at, "\r\n", 2) || memcmp(in + at + 2 + length, "\r\n", 2)) return 0;
    *data = at + 2;
    return length;
}

/* Keeps a read whose bytes are at in, which may be where they go, if it is whole chunks. */
static bool keep(struct kept *kept, const uint8_t *in, int64_t size, int64_t stamp_ns, uint8_t *to) {
    int64_t data, length, at = 0;
    for (; at < size; at += data + length + 2)
        if (!(length = chunk(in + at, size - at, &data))) return false;
    struct record record = {stamp_ns, 0};
    uint8_t *put = to + sizeof record;
    for (at = 0; at < size; at += data + length + 2, record.size += length) {
        length = chunk(in + at, size - at, &data);
        memmove(put + record.size, in + at + data, (size_t)length);
    }
    memcpy(to, &record, sizeof record);
    kept->size += record.size;
    kept->reads++;
    kept->bytes_in += size;
    return true;
}

/* The same for a read that was decrypted elsewhere. */
int receiver_keep(struct kept *kept, const uint8_t *in, int64_t size, int64_t stamp_ns) {
    uint8_t *to = room(kept, size);
    return to && keep(kept, in, size, stamp_ns, to);
}

/* Reads fd once; false when there is nothing to report of it, otherwise its bytes are in bytes[slot]. */
static bool receive(struct receiver *r, int fd, struct stream *s, int slot) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct timespec))];
    } control;
    uint8_t *bytes = r->bytes[slot], *to = s->mode == CHUNKS ? room(&s->kept, USUAL_BYTES) : NULL;
    uint8_t *first = to ? to + sizeof(struct record) : bytes;
    struct iovec into[2] = {{first, USUAL_BYTES}, {bytes + USUAL_BYTES, READ_BYTES - USUAL_BYTES}};
    struct msghdr message = {
        .msg_iov = into, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t size = recvmsg(fd, &message, 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    int64_t read_ns = clock_ns(CLOCK_MONOTONIC), stamp_ns = read_ns;
    struct cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_TIMESTAMPNS) {
        struct timespec wall;
        memcpy(&wall, CMSG_DATA(header), sizeof wall);
        stamp_ns = clock_stamp(&r->clock, wall.tv_sec * 1000000000LL + wall.tv_nsec, read_ns, s->floor_ns);
    }
    if (size > 0) {
        s->floor_ns = stamp_ns;
        r->delays_ns[r->delays++ % DELAYS] = read_ns - stamp_ns;
    }
    if (to && size > 0) {
        bool usual = size <= USUAL_BYTES, kept = size <= s->bytes_left;
        if (usual && kept) kept = keep(&s->kept, first, size, stamp_ns, to);
        if (!usual || !kept) memcpy(bytes, first, (size_t)(usual ? size : USUAL_BYTES));
        if (!usual && kept) kept = receiver_keep(&s->kept, bytes, size, stamp_ns);
        s->bytes_left -= size;
        if (kept) return false;
    }
    if (s->mode == CHUNKS) s->mode = READ;
    struct event *event = &r->events[slot];
    event->size = size < 0 ? -errno : (int32_t)size;
    event->kept = s->kept.reads > 0;
    event->stamp_ns = stamp_ns;
    return true;
}

enum news { NO_NEWS, CAN_WAIT, PRESSING };

/* Reports fd in events[slot], reading it where that is asked for. Bytes can wait to be told together with others. */
static enum news serve(struct receiver *r, int fd, uint32_t mask, int slot) {
    struct event *event = &r->events[slot];
    struct stream *s = stream(r, fd);
    bool told = false;
    if (s && s->mode != LEAVE && mask != EPOLLOUT) {
        told = receive(r, fd, s, slot);
        if (!told && !(mask & EPOLLOUT)) return NO_NEWS;
    }
    if (!told) event->size = NOTHING, event->kept = 0;
    event->fd = fd;
    event->mask = mask;
    if (!told || event->size <= 0 || mask & EPOLLOUT) return PRESSING;
    s->told_in = r->waits;
    return CAN_WAIT;
}

/* Whether fd brought something to report, in events[0]. */
int receiver_read(struct receiver *r, int fd) { return serve(r, fd, EPOLLIN, 0) != NO_NEWS; }

/* Until something is ready, or until_ns has come. */
static void nap(int epoll, int64_t left_ns) {
    if (left_ns <= 0) return;
    struct timespec left = {left_ns / 1000000000, left_ns % 1000000000};
    ppoll(&(struct pollfd){.fd = epoll, .events = POLLIN}, 1, &left, NULL);
}

/* Waits for events and reads, until there is something to report, until_ns has come, or nothing happened in timeout_ms.
   What can wait is gathered until the first of it is gather_ns old, each descriptor once: by the second time the first
   may have changed what it means.
   Returns how many events there are; ready is how many descriptors were, in the last look. -errno when epoll fails. */
int receiver_wait(struct receiver *r, int timeout_ms, int64_t until_ns, int64_t gather_ns) {
    struct epoll_event ready[AT_ONCE];
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    int told = 0;
    r->waits++;
    for (;;) {
        bool pressing = false, first = !told;
        if (told) nap(r->epoll, until_ns - now_ns);
        int count = epoll_wait(r->epoll, ready, AT_ONCE - told, told ? 0 : timeout_ms);
        int64_t woken_ns = clock_ns(CLOCK_MONOTONIC);
        r->asleep_ns += woken_ns - now_ns;
        r->ready = count < 0 ? 0 : count;
        if (count < 0) return told || errno == EINTR ? told : -errno;
        clock_refresh(&r->clock, woken_ns);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            struct stream *s = stream(r, fd);
            bool again = s && s->told_in == r->waits;
            enum news news = again ? NO_NEWS : serve(r, fd, ready[i].events, told);
            pressing |= again || news == PRESSING;
            told += news != NO_NEWS;
        }
        now_ns = clock_ns(CLOCK_MONOTONIC);
        if (first && told && r->events[0].stamp_ns + gather_ns < until_ns) until_ns = r->events[0].stamp_ns + gather_ns;
        if (pressing || !count || now_ns >= until_ns || told == AT_ONCE) return told;
    }
}
