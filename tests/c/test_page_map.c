#include "check.h"

#include <errno.h>

#include "graphzero/page_map.h"
#include "support.h"

TEST(pages_beyond_the_file_are_refused)
{
    const uint64_t ranges[][2] = {{0, 4}, {4, 0}, {2, UINT64_MAX}};
    uint8_t pages[8];
    gz_mapping mapping;
    if (!map_file(&mapping, NULL, 3 * gz_system_page_bytes() - 1))
        return;
    for (unsigned i = 0; i < COUNT(ranges); i++) {
        CHECK_EQ(gz_page_map_read(&mapping, ranges[i][0], ranges[i][1], true, pages, &err),
                 GZ_E_OS);
        CHECK_EQ(err.saved_errno, EINVAL);
    }
    CHECK_EQ(gz_page_map_read(&mapping, 3, 0, true, pages, &err), GZ_OK);
    gz_mapping_close(&mapping);
}
