/* Loops over the bytes of a block: the few steps that touch every byte of a long log.
 *
 * Called through parsers/kernels.py, which says what they take. Plain C: nothing
 * is allocated, nothing is written but the arrays handed in, no byte is read outside the lines.
 */

#include <stdint.h>
#include <string.h>

#define NO_TIME INT64_MIN
#define MOST_DIGITS 15 /* all whole numbers of so many digits are exact as doubles */

static const double POWERS[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6};

static int is_digit(uint8_t byte) { return (uint8_t)(byte - '0') <= 9; }

/* Whether the head stands at the start of a line; of each byte the next few may stand for it too. */
static int begins(const uint8_t *at, const uint8_t *end, const uint8_t *head, const uint8_t *span,
                  int64_t size) {
    if (end - at < size) return 0;
    int64_t last = size < 8 ? 0 : size - 8;
    for (int64_t i = size - 1; i >= last; i--) { /* from its end: lines mostly begin alike */
        if ((uint8_t)(at[i] - head[i]) > span[i]) return 0;
    }
    int differs = 0; /* without a way out, so that many bytes are compared at once */
    for (int64_t i = 0; i < last; i++) differs |= (uint8_t)(at[i] - head[i]) > span[i];
    return !differs;
}

static uint64_t eight(const uint8_t *at) {
    uint64_t bytes;
    memcpy(&bytes, at, 8);
    return bytes;
}

/* Where a text ends that stands at this place; NULL where another one does. */
static const uint8_t *after(const uint8_t *at, const uint8_t *end, const uint8_t *text,
                            int64_t size) {
    if (end - at < size) return 0;
    if (size < 8) {
        for (int64_t i = 0; i < size; i++) {
            if (at[i] != text[i]) return 0;
        }
        return at + size;
    }
    for (int64_t i = 0; i < size - 8; i += 8) {
        if (eight(at + i) != eight(text + i)) return 0;
    }
    return eight(at + size - 8) == eight(text + size - 8) ? at + size : 0;
}

/* Where a number with so many decimals ends, or NULL; it is stored as a double if it has any. */
static const uint8_t *number(const uint8_t *at, const uint8_t *end, int decimals, int64_t *stored) {
    const uint8_t *start = at;
    int64_t whole = 0;
    while (at < end && is_digit(*at) && at - start <= MOST_DIGITS) whole = whole * 10 + *at++ - '0';
    int64_t size = at - start;
    if (!size || (*start == '0' && size > 1)) return 0; /* a zero in front: kept as text */
    if (decimals) {
        if (at >= end || *at++ != '.' || end - at < decimals) return 0;
        for (int i = 0; i < decimals; i++) {
            if (!is_digit(*at)) return 0;
            whole = whole * 10 + *at++ - '0';
        }
        size += decimals;
        /* The quotient of two whole numbers is the double nearest to the decimal. */
        *(double *)stored = (double)whole / POWERS[decimals];
    } else {
        *stored = whole;
    }
    return size <= MOST_DIGITS ? at : 0;
}

int64_t values(const uint8_t *data, const int64_t *starts, const int64_t *ends,
               const int64_t *lines, int64_t lines_count, const uint8_t *head,
               const uint8_t *span, int64_t head_size, const uint8_t *texts, const int64_t *text_ends, const int64_t *decimals,
               int64_t count, const uint8_t *tail, int64_t tail_size, int64_t *rows,
               int64_t *found) {
    int64_t n = 0;
    for (int64_t line = 0; line < lines_count; line++) {
        int64_t row = lines[line];
        const uint8_t *at = data + starts[row], *end = data + ends[row];
        if (!begins(at, end, head, span, head_size)) continue;
        at += head_size;
        int64_t text = 0;
        for (int64_t i = 0; i < count && at; i++) {
            int64_t *stored = found + i * lines_count + n;
            at = after(at, end, texts + text, text_ends[i] - text);
            text = text_ends[i];
            if (!at) break;
            if (decimals[i] >= 0) {
                at = number(at, end, (int)decimals[i], stored);
            } else {
                const uint8_t *is_true = after(at, end, (const uint8_t *)"True", 4);
                *stored = is_true != 0;
                at = is_true ? is_true : after(at, end, (const uint8_t *)"False", 5);
            }
        }
        if (at && after(at, end, tail, tail_size) == end) rows[n++] = row;
    }
    return n;
}

int64_t requests(const uint8_t *data, const int64_t *starts, const int64_t *ends,
                 const int64_t *lines, int64_t count, const uint8_t *head, const uint8_t *span,
                 int64_t head_size, int64_t shortest, int64_t longest, int64_t *rows, int64_t *places) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *at = data + starts[lines[i]], *end = data + ends[lines[i]];
        if (!begins(at, end, head, span, head_size)) continue;
        at += head_size;
        const uint8_t *client = at;
        while (at < end && *at >= '.' && *at <= ':') at++;
        if (at - client < 9 || at - client > 21) continue; /* an IPv4 address with its port */
        at = after(at, end, (const uint8_t *)" - \"", 4);
        if (!at || end - at < shortest || end - at > longest) continue;
        rows[n] = lines[i];
        places[n++] = at - data;
    }
    return n;
}

static int64_t hash(const uint8_t *at, int64_t size) {
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (int64_t i = 0; i < size; i++) h = (h ^ at[i]) * 1099511628211u;
    return (int64_t)(h >> 20);
}

int64_t distinct(const uint8_t *data, const int64_t *starts, const int64_t *ends, int64_t texts,
                 int64_t same, int64_t *table, int64_t slots, int64_t *code, int64_t *firsts) {
    int64_t n = 0, before = -1;
    for (int64_t i = 0; i < texts; i++) {
        const uint8_t *at = data + starts[i];
        int64_t size = ends[i] - starts[i], slot;
        if (size > same) size = same;
        if (size == before && !memcmp(at, data + starts[i - 1], (size_t)size)) {
            code[i] = code[i - 1];
            continue;
        }
        before = size;
        for (slot = hash(at, size) % slots; table[slot] >= 0; slot = (slot + 1) % slots) {
            int64_t first = firsts[table[slot]], other = ends[first] - starts[first];
            if (other > same) other = same;
            if (other == size && !memcmp(at, data + starts[first], (size_t)size)) break;
        }
        if (table[slot] >= 0) {
            code[i] = table[slot];
        } else {
            if (n < slots / 2) table[slot] = n; /* beyond, a text that comes again is a new one */
            code[i] = n;
            firsts[n++] = i;
        }
    }
    return n;
}

int64_t gather(const uint8_t *data, const int64_t *starts, const int64_t *ends,
               const int64_t *lines, int64_t count, uint8_t *texts) {
    uint8_t *at = texts;
    for (int64_t i = 0; i < count; i++) {
        int64_t size = ends[lines[i]] - starts[lines[i]];
        memcpy(at, data + starts[lines[i]], (size_t)size);
        at += size;
        *at++ = '\n';
    }
    return at - texts;
}

static int two(const uint8_t *at) { return (at[0] - '0') * 10 + at[1] - '0'; }

/* Days since 1970-01-01; NO_TIME for a day that no year has. Counted from 1 March of year 0, so that a
 * leap day is the last of its year. */
static int64_t days(int year, int month, int day) {
    int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    int length = month == 2 ? 28 + leap : 31 - (month == 4 || month == 6 || month == 9 || month == 11);
    if (month < 1 || month > 12 || day < 1 || day > length) return NO_TIME;
    int64_t y = month <= 2 ? year - 1 : year, m = month <= 2 ? month + 9 : month - 3;
    return y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

int64_t stamps(const uint8_t *data, const int64_t *places, int64_t count, int64_t *found) {
    int64_t none = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *at = data + places[i];
        if (i && after(at, at + 19, data + places[i - 1], 19)) { /* many share a second */
            found[i] = found[i - 1];
            none += found[i] == NO_TIME;
            continue;
        }
        int hour = two(at + 11), minute = two(at + 14), second = two(at + 17);
        int64_t day = days(two(at) * 100 + two(at + 2), two(at + 5), two(at + 8));
        if (day == NO_TIME || hour > 23 || minute > 59 || second > 59) {
            found[i] = NO_TIME;
            none++;
        } else {
            found[i] = (((day * 24 + hour) * 60 + minute) * 60 + second) * 1000000;
        }
    }
    return none;
}

int64_t newlines(const uint8_t *data, int64_t size, int64_t most, int64_t *places) {
    const uint8_t *at = data, *end = data + size;
    int64_t n = 0;
    while (n < most && (at = memchr(at, '\n', (size_t)(end - at)))) places[n++] = at++ - data;
    return n;
}

/* Grows with every change of what the loops take. */
int64_t edition(void) { return 3; }
