package furnish

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

func (system) device(ctx context.Context, device, directory, kind string, options []string) error {
	empty, err := isEmpty(ctx, device)
	if err != nil {
		return err
	}
	if empty {
		args := []string{device}
		if kind == "ext3" || kind == "ext4" {
			args = []string{"-F", "-m0", device} // all of it for the pods
		}
		if err := call(ctx, "mkfs."+kind, args...); err != nil {
			return err
		}
	}
	args := []string{"-t", kind, device, directory}
	if len(options) > 0 {
		args = append([]string{"-o", strings.Join(options, ",")}, args...)
	}
	return call(ctx, "mount", args...)
}

// nothingFound is the status of blkid for a device without a file system, a table of partitions or anything else that
// it knows.
const nothingFound = 2

func isEmpty(ctx context.Context, device string) (bool, error) {
	err := call(ctx, "blkid", "-p", device)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == nothingFound {
		return true, nil
	}
	return false, err
}

// call runs a program of the machine. Its error has what the program said.
func call(ctx context.Context, name string, args ...string) error {
	said, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(said)))
	}
	return nil
}
