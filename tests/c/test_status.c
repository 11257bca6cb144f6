#include <errno.h>
#include <string.h>

#include "check.h"
#include "graphzero/status.h"

static void fills_the_error(void)
{
    gz_error err;
    CHECK_EQ(gz_fail(&err, GZ_E_OS, ENOENT, 12, "at %d of %s", 7, "x"), GZ_E_OS);
    CHECK_EQ(err.code, GZ_E_OS);
    CHECK_EQ(err.saved_errno, ENOENT);
    CHECK_EQ(err.offset, 12);
    CHECK(strcmp(err.message, "at 7 of x") == 0);
}

static void cuts_long_messages(void)
{
    gz_error err;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    CHECK_EQ(gz_fail(&err, GZ_E_FORMAT, 0, 0, "%s", text), GZ_E_FORMAT);
    CHECK_EQ(strlen(err.message), sizeof err.message - 1);
}

void test_status(void)
{
    RUN(fills_the_error);
    RUN(cuts_long_messages);
}
