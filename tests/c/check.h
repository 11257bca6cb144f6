/* The test harness, which comes before all other headers. TEST(name) defines a test, and makes main
 * run it; it fails if one of its CHECKs fails. The tests are of what the naive twins in Python
 * cannot reach: hostile files, limits, failures of the system. */
#ifndef GRAPHZERO_TESTS_CHECK_H
#define GRAPHZERO_TESTS_CHECK_H

#define _GNU_SOURCE /* fork, unlink and the like under -std=c11 */
#define _DARWIN_C_SOURCE

#include <stdbool.h>
#include <stdint.h>

bool check_that(bool holds, const char *file, int line, const char *text);
bool check_equal(int64_t got, int64_t wanted, const char *file, int line, const char *text);
void add_test(void (*test)(void), const char *name);

/* Both return true if the check passes, for `if (!CHECK(...)) return;`. */
#define CHECK(condition) check_that((condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(got, wanted)                                                                      \
    check_equal((int64_t)(got), (int64_t)(wanted), __FILE__, __LINE__, #got " == " #wanted)

#define TEST(name)                                                                                 \
    static void name(void);                                                                        \
    __attribute__((constructor)) static void add_##name(void) { add_test(name, #name); }           \
    static void name(void)

#endif
