#include "graphzero/status.h"

#include <stdarg.h>
#include <stdio.h>

gz_code gz_fail(gz_error *err, gz_code code, int saved_errno, uint64_t offset, const char *format,
                ...)
{
    va_list args;
    err->code = code;
    err->saved_errno = saved_errno;
    err->offset = offset;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}
