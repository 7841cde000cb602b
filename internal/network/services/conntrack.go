//go:build linux

package services

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Conntrack is how the kernel tracks connections. Zero values leave a setting as it is.
type Conntrack struct {
	// MaxPerCore and Min limit the connections: to the larger of MaxPerCore for each processor, and Min. A higher limit
	// is not lowered.
	MaxPerCore, Min int
	// Established, CloseWait, Unreplied and Assured are how long the kernel keeps idle connections: TCP connections
	// that are established, those that one side has closed, UDP flows without a reply, and UDP flows with several.
	Established, CloseWait, Unreplied, Assured time.Duration
	// Liberal accepts TCP packets outside of the window.
	Liberal bool
}

// The directories of the settings.
const (
	sysctlDirectory = "/proc/sys/net/netfilter"
	hashSizeFile    = "/sys/module/nf_conntrack/parameters/hashsize"
)

// connectionsPerBucket is the usual ratio of tracked connections to buckets of the kernel's hash table.
const connectionsPerBucket = 4

// Apply writes the settings of the network namespace of the calling thread. The limit can only be set in the machine's
// own namespace. An error does not keep services from working.
func (c Conntrack) Apply() error { return c.apply(sysctlDirectory, hashSizeFile, runtime.NumCPU()) }

func (c Conntrack) apply(directory, hashSize string, cores int) error {
	errs := []error{c.applyLimit(filepath.Join(directory, "nf_conntrack_max"), hashSize, cores)}
	for name, d := range map[string]time.Duration{
		"tcp_timeout_established": c.Established, "tcp_timeout_close_wait": c.CloseWait, "udp_timeout": c.Unreplied, "udp_timeout_stream": c.Assured,
	} {
		if d > 0 {
			errs = append(errs, set(filepath.Join(directory, "nf_conntrack_"+name), int(d/time.Second)))
		}
	}
	if c.Liberal {
		errs = append(errs, set(filepath.Join(directory, "nf_conntrack_tcp_be_liberal"), 1))
	}
	return errors.Join(errs...)
}

// applyLimit raises the limit, and the size of the hash table to suit it.
func (c Conntrack) applyLimit(limitFile, hashSizeFile string, cores int) error {
	if c.MaxPerCore <= 0 {
		return nil
	}
	limit := max(c.MaxPerCore*cores, c.Min)
	if err := raise(limitFile, limit); err != nil {
		return err
	}
	return raise(hashSizeFile, limit/connectionsPerBucket)
}

// set writes a number to a file if the file has another one. raise does it if the file has a lower one.
func set(file string, n int) error {
	return write(file, n, func(have int) bool { return have != n })
}

func raise(file string, n int) error {
	return write(file, n, func(have int) bool { return have < n })
}

func write(file string, n int, needed func(have int) bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	have, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if !needed(have) {
		return nil
	}
	return os.WriteFile(file, []byte(strconv.Itoa(n)), 0o644)
}
