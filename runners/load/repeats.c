/* Events that repeat another with a different text; see repeats.py. A text has no quotes, escapes or control
   characters, and is not empty. */

#include <stdint.h>
#include <string.h>

struct frame {
    const uint8_t *before, *after;
    int64_t before_size, after_size;
};

/* The length of the text between the frame's parts, at the beginning of size bytes; 0: this is no repeat. */
static int64_t text(const struct frame *frame, const uint8_t *in, int64_t size) {
    int64_t spare = size - frame->before_size - frame->after_size, length = 0;
    if (spare < 1 || memcmp(in, frame->before, (size_t)frame->before_size)) return 0;
    in += frame->before_size;
    while (length < spare && in[length] >= 0x20 && in[length] != '"' && in[length] != '\\') length++;
    return memcmp(in + length, frame->after, (size_t)frame->after_size) ? 0 : length;
}

/* How many events from at on are repeats; bytes: how long their texts are in all. */
int64_t repeats_count(const struct frame *frame, const uint8_t *body, int64_t size, int64_t at, int64_t *bytes) {
    int64_t count = 0, length;
    for (*bytes = 0; (length = text(frame, body + at, size - at)); count++, *bytes += length)
        at += frame->before_size + length + frame->after_size;
    return count;
}

/* So many repeats: their texts, each with an LF behind it, and the stamp of the read that completed each: after the read
   stamped read_ns[i] the body had ends[i] bytes. Returns where the last of them ends. */
int64_t repeats_take(const struct frame *frame, const uint8_t *body, int64_t count, int64_t at, const int64_t *ends,
                     const int64_t *read_ns, uint8_t *texts, int64_t *stamps_ns) {
    for (int64_t i = 0; i < count; i++) {
        at += frame->before_size;
        while (body[at] != '"') *texts++ = body[at++];
        *texts++ = '\n';
        at += frame->after_size;
        while (*ends < at) ends++, read_ns++;
        stamps_ns[i] = *read_ns;
    }
    return at;
}
