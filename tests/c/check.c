#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TESTS = 1000 };

static struct {
    void (*run)(void);
    const char *name;
} tests[MOST_TESTS];
static int num_tests;
static bool this_one_failed;

void add_test(void (*test)(void), const char *name)
{
    if (num_tests == MOST_TESTS)
        abort();
    tests[num_tests].run = test;
    tests[num_tests++].name = name;
}

bool check_that(bool holds, const char *file, int line, const char *text)
{
    if (!holds) {
        this_one_failed = true;
        printf("%s:%d: does not hold: %s\n", file, line, text);
    }
    return holds;
}

bool check_equal(int64_t got, int64_t wanted, const char *file, int line, const char *text)
{
    if (!check_that(got == wanted, file, line, text))
        printf("  %" PRId64 ", %" PRId64 "\n", got, wanted);
    return got == wanted;
}

int main(void)
{
    int failed = 0;
    for (int i = 0; i < num_tests; i++) {
        this_one_failed = false;
        tests[i].run();
        failed += this_one_failed;
        if (this_one_failed)
            printf("FAILED %s\n", tests[i].name);
    }
    printf("%d passed, %d failed\n", num_tests - failed, failed);
    return failed == 0 ? 0 : 1;
}
