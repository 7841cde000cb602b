package etcd

import (
	"flag"
	"os"
	"testing"
)

// These tests mostly wait: for leases and etcd's resynchronisation.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
