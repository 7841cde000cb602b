package etcd

import (
	"flag"
	"os"
	"testing"
)

// These tests mostly wait: for disks, leases and etcd's resynchronisation.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		writeUntilKilled(dir, os.Getenv(crashPrefix))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
