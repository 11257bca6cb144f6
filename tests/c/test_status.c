#include "check.h"

#include <errno.h>
#include <string.h>

#include "support.h"

TEST(errors_are_filled_and_long_messages_cut)
{
    char text[1000] = {0};
    CHECK_EQ(gz_fail(&err, GZ_E_OS, ENOENT, 12, "at %d of %s", 7, "x"), GZ_E_OS);
    CHECK(err.code == GZ_E_OS && err.saved_errno == ENOENT && err.offset == 12);
    CHECK(strcmp(err.message, "at 7 of x") == 0);
    memset(text, 'x', sizeof text - 1);
    CHECK_EQ(gz_fail(&err, GZ_E_FORMAT, 0, 0, "%s", text), GZ_E_FORMAT);
    CHECK_EQ(strlen(err.message), sizeof err.message - 1);
}
