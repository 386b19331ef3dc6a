/* The handler of an event: sends one byte to the abstract datagram socket NAME, and ends. NAME is defined by the bench. */
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int main(void) {
    int socket_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path + 1, NAME, sizeof NAME - 1);
    return sendto(socket_fd, "x", 1, 0, (void *)&to, offsetof(struct sockaddr_un, sun_path) + sizeof NAME) != 1;
}
