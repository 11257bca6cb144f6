#include "check.h"

#include <string.h>

#include "graphzero/growable.h"

TEST(arrays_keep_their_elements_as_they_grow)
{
    gz_error err = {0};
    int64_t *array = NULL;
    for (int64_t capacity = 1; capacity <= 1 << 17; capacity *= 2) {
        array = gz_grown(array, capacity, sizeof *array, "numbers", &err);
        CHECK(array != NULL);
        for (int64_t i = capacity / 2; i < capacity; i++)
            array[i] = i;
    }
    int64_t different = 0;
    for (int64_t i = 0; i < 1 << 17; i++)
        different += array[i] != i;
    CHECK_EQ(different, 0);
    CHECK(gz_grown(array, 10, sizeof *array, "numbers", &err) == array);
    CHECK(gz_grown(array, INT64_MAX / 4, sizeof *array, "numbers", &err) == NULL);
    CHECK_EQ(err.code, GZ_E_NOMEM);
    CHECK_EQ(array[5], 5);
    gz_free_array(array);
    gz_free_array(NULL);
}

TEST(new_arrays_are_zero_whatever_was_freed_before)
{
    gz_error err = {0};
    for (int64_t capacity = 10; capacity < 1 << 20; capacity *= 10) {
        unsigned char *array = gz_grown(NULL, capacity, 1, "bytes", &err);
        CHECK(array != NULL);
        memset(array, 7, (size_t)capacity);
        gz_free_array(array);
        array = gz_zeroed(capacity, 1, "bytes", &err);
        CHECK(array != NULL);
        for (int64_t i = 0; i < capacity; i++)
            CHECK_EQ(array[i], 0);
        gz_free_array(array);
    }
}

TEST(resting_arrays_are_what_they_were_or_zero)
{
    gz_error err = {0};
    const int64_t count = 1 << 18;
    int64_t *array = gz_grown(NULL, count, sizeof *array, "numbers", &err);
    CHECK(array != NULL);
    for (int64_t i = 0; i < count; i++)
        array[i] = i;
    gz_rest_array(array);
    gz_rest_array(NULL);
    int64_t different = 0;
    for (int64_t i = 0; i < count; i++)
        different += array[i] != i && array[i] != 0;
    CHECK_EQ(different, 0);
    array = gz_grown(array, 2 * count, sizeof *array, "numbers", &err);
    CHECK(array != NULL);
    gz_free_array(array);
}
