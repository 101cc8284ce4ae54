/* JSON output and the parts of the probe. */
#pragma once
void json_string(const char *text);
void json_key(const char *key);
void json_open(const char *key);
void json_close(void);
void json_pair(const char *key, const char *value);
const char *errno_name(int error);
/* Tries system calls that a sandbox should be refused; prints the errno of each. */
void syscalls(void);
