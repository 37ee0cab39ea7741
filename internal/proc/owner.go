package proc

import (
	"os"
	"strconv"
	"strings"
)

// NewOwner returns a name for the owner of a lease: a kind, the machine, this process, its start, and an
// id. Neither kind nor id contains a space.
func NewOwner(kind, id string) string {
	return strings.Join([]string{kind, Machine(), strconv.Itoa(os.Getpid()), Start(os.Getpid()), id}, " ")
}

// ParseOwner returns the process and the id of an owner that NewOwner named on this machine, since its
// last start and in this PID namespace.
func ParseOwner(kind, owner string) (pid int, start, id string, ok bool) {
	f := strings.Split(owner, " ")
	if len(f) != 5 || f[0] != kind || f[1] == "" || f[1] != Machine() {
		return 0, "", "", false
	}
	pid, err := strconv.Atoi(f[2])
	return pid, f[3], f[4], err == nil
}
