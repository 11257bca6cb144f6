#include "graphzero/parse_records.h"

#include <string.h>

#include "check.h"

enum { ROOM = 256, RECORDS = 16 };

static unsigned char text[ROOM + GZ_PARSE_PADDING];
static uint32_t ids[RECORDS];
static int64_t times[RECORDS];
static float weights[RECORDS];
static const gz_cell_column ids_and_times[] = {{GZ_CELL_UINT32, ids}, {GZ_CELL_INT64, times}};

static gz_parsed parse(const char *lines, unsigned char delimiter, int32_t width,
                       const gz_cell_column *columns)
{
    gz_record_format format = {delimiter, delimiter == ' ', width, columns};
    size_t length = strlen(lines);
    memset(text, '1', sizeof text);
    memcpy(text, lines, length);
    return gz_parse_records(&format, text, 0, (int64_t)length, 0);
}

static void records_become_columns(void)
{
    gz_parsed got = parse("1,-2\n3,4\r\n\n\r\n5,6\n", ',', 2, ids_and_times);
    CHECK_EQ(got.records, 3);
    CHECK_EQ(got.stop, 17);
    CHECK(ids[0] == 1 && ids[1] == 3 && ids[2] == 5);
    CHECK(times[0] == -2 && times[1] == 4 && times[2] == 6);
}

static void a_range_fills_its_part_of_the_columns(void)
{
    gz_record_format format = {',', false, 2, ids_and_times};
    ids[0] = 77;
    parse("1,2\n3,4\n5,6\n", ',', 2, ids_and_times);
    gz_parsed got = gz_parse_records(&format, text, 4, 8, 5);
    CHECK(got.records == 1 && got.stop == 8 && ids[5] == 3 && times[5] == 4);
}

static void the_first_record_that_is_not_plain_stops(void)
{
    static const char *const bad[] = {
        "7\n",
        "7,8,9\n",
        "7,\n",
        ",8\n",
        "7,x\n",
        "7,8.0\n",
        "-7,8\n",
        "\"7\",8\n",
        "7 8\n",
        "7,8\r9\n",
        "7,8\r\r\n",
        "7;8\n",
        " \n",
        "7,0x8\n",
        "7,8 9\n",
        "99999999999999999999,1\n",
        "4294967296,1\n",
        "7,9223372036854775808\n",
    };
    char lines[64];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        strcpy(lines, "1,2\n");
        strcat(lines, bad[i]);
        strcat(lines, "3,4\n");
        gz_parsed got = parse(lines, ',', 2, ids_and_times);
        CHECK(got.records == 1 && got.stop == 4);
    }
}

static void blanks_around_numbers_are_no_part_of_them(void)
{
    gz_parsed got = parse(" 1 ,\t2 \n3, 4\n", ',', 2, ids_and_times);
    CHECK(got.records == 2 && ids[0] == 1 && times[0] == 2 && times[1] == 4);
    CHECK_EQ(parse("1\t\t2\n", '\t', 2, ids_and_times).records, 0);
}

static void runs_of_blanks_separate(void)
{
    gz_parsed got = parse("  1 \t 2\n3    4  \r\n \t \n5 6\n", ' ', 2, ids_and_times);
    CHECK(got.records == 3 && ids[0] == 1 && times[0] == 2 && times[1] == 4 && times[2] == 6);
    CHECK_EQ(parse("1 2 3\n", ' ', 2, ids_and_times).records, 0);
    CHECK_EQ(parse("1,2\n", ' ', 2, ids_and_times).records, 0);
    CHECK_EQ(parse("1 \n", ' ', 2, ids_and_times).records, 0);
}

static void columns_that_are_not_wanted_may_hold_anything_plain(void)
{
    const gz_cell_column columns[] = {
        {GZ_CELL_SKIP, NULL}, {GZ_CELL_UINT32, ids}, {GZ_CELL_SKIP, NULL}};
    gz_parsed got = parse("a b,1,\nx\xc3\xa9,2, y \r\n,3,.\n", ',', 3, columns);
    CHECK(got.records == 3 && ids[0] == 1 && ids[1] == 2 && ids[2] == 3);
    CHECK_EQ(parse("\"a,b\",1,\n", ',', 3, columns).records, 0);
    CHECK_EQ(parse("a,1,b,c\n", ',', 3, columns).records, 0);
    CHECK_EQ(parse("a,1,b\rc\n", ',', 3, columns).records, 0);
}

static void a_zero_byte_is_not_plain(void)
{
    const gz_cell_column columns[] = {{GZ_CELL_UINT32, ids}, {GZ_CELL_SKIP, NULL}};
    gz_record_format format = {',', false, 2, columns};
    memcpy(text, "1,a\0b\n", 6);
    gz_parsed got = gz_parse_records(&format, text, 0, 6, 0);
    CHECK(got.records == 0 && got.stop == 0);
}

static void decimal_numbers(void)
{
    const gz_cell_column columns[] = {{GZ_CELL_UINT32, ids}, {GZ_CELL_FLOAT32, weights}};
    gz_parsed got = parse("1,0.5\n2,-1e-3\n3,nan\n", ',', 2, columns);
    CHECK(got.records == 2 && weights[0] == 0.5f && weights[1] == -1e-3f);
}

static void lines_are_counted(void)
{
    parse("1,2\n\n3,4\n", ',', 2, ids_and_times);
    CHECK_EQ(gz_count_lines(text, 0, 9), 3);
    CHECK_EQ(gz_count_lines(text, 1, 3), 0);
    CHECK_EQ(gz_count_lines(text, 4, 4), 0);
}

void test_parse_records(void)
{
    RUN(records_become_columns);
    RUN(a_range_fills_its_part_of_the_columns);
    RUN(the_first_record_that_is_not_plain_stops);
    RUN(blanks_around_numbers_are_no_part_of_them);
    RUN(runs_of_blanks_separate);
    RUN(columns_that_are_not_wanted_may_hold_anything_plain);
    RUN(a_zero_byte_is_not_plain);
    RUN(decimal_numbers);
    RUN(lines_are_counted);
}
