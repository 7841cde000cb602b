package loops_test

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child if the test process is killed.
func dieWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
