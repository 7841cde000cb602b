package loops_test

import (
	"os/exec"
	"syscall"
)

// dieWithParent leaves nothing behind if the tests themselves are killed.
func dieWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
