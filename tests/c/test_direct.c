#include "check.h"

#include <errno.h>

#include "support.h"

/* Of a file of 100 pages and ten bytes, which does not exist: only the results are made up. */
TEST(results_of_reads_are_settled)
{
    const int64_t page = (int64_t)gz_system_page_bytes();
    const gz_direct file = {-1, true, (uint64_t)(100 * page + 10)};
    const struct {
        int64_t offset, length, got; /* the read, and what it has got so far */
        int64_t result;              /* bytes, or a negative errno */
        gz_settled wanted;
        int64_t then; /* what it has got, or where it failed */
        int saved_errno;
    } cases[] = {
        {2 * page, 8 * page, 0, 3 * page, GZ_READ_AGAIN, 3 * page, 0}, /* from a page on */
        {2 * page, 8 * page, 3 * page, 2 * page + 100, GZ_READ_AGAIN, 5 * page, 0},
        {2 * page, 8 * page, 5 * page, 3 * page, GZ_READ_DONE, 5 * page, 0},
        {99 * page, 2 * page, 0, page + 10, GZ_READ_DONE, 0, 0}, /* the end of the file */
        {99 * page, 2 * page, 0, page + 9, GZ_READ_AGAIN, page, 0},
        {99 * page, 2 * page, page, 9, GZ_READ_FAILED, 100 * page + 9, 0},
        {page, page, 0, 0, GZ_READ_FAILED, page, 0}, /* nothing where rows must be */
        {page, page, 0, page - 1, GZ_READ_FAILED, 2 * page - 1, 0},
        {page, page, 0, -EINTR, GZ_READ_AGAIN, 0, 0},
        {page, page, 0, -EAGAIN, GZ_READ_AGAIN, 0, 0},
        {2 * page, page, 0, -EIO, GZ_READ_FAILED, 2 * page, EIO},
    };
    for (unsigned i = 0; i < COUNT(cases); i++) {
        gz_buffer buffer = {.got = (uint64_t)cases[i].got};
        buffer.read = (gz_read){(uint64_t)cases[i].offset, (uint64_t)cases[i].length, 0, 0};
        bool fails = cases[i].wanted == GZ_READ_FAILED;
        CHECK_EQ(gz_direct_settle(&file, &buffer, cases[i].result, &err), cases[i].wanted);
        CHECK_EQ(fails ? err.offset : buffer.got, cases[i].then);
        CHECK(!fails || err.code == (cases[i].saved_errno ? GZ_E_OS : GZ_E_FORMAT));
        CHECK(!fails || err.saved_errno == cases[i].saved_errno);
    }
}

TEST(a_busy_disk_is_not_tried_for_ever)
{
    const gz_direct file = {-1, true, 1 << 20};
    gz_buffer buffer = {.read = {0, 4096, 0, 0}};
    int tries = 0;
    while (tries < 100000 && gz_direct_settle(&file, &buffer, -EAGAIN, &err) == GZ_READ_AGAIN)
        tries++;
    CHECK(tries > 1 && tries < 10000);
    CHECK_EQ(err.saved_errno, EAGAIN);
}
