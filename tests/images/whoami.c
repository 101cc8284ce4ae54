/* Prints who runs it and with which capabilities: shows what setuid bits and file capabilities do. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    printf("uid=%d euid=%d gid=%d egid=%d", getuid(), geteuid(), getgid(), getegid());
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "CapEff:", 7)) {
            line[strcspn(line, "\n")] = 0;
            printf(" caps=%s", line + 8);
        }
    printf("\n");
    return 0;
}
