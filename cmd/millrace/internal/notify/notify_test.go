//go:build unix

package notify

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestSystemdIsToldOfReadyAndStopping(t *testing.T) {
	directory, err := os.MkdirTemp("", "n") // a path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "socket")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	for want, say := range map[string]func() error{"READY=1": Ready, "STOPPING=1": Stopping} {
		if err := say(); err != nil {
			t.Fatal(err)
		}
		heard := make([]byte, 100)
		n, err := systemd.Read(heard)
		if err != nil || string(heard[:n]) != want {
			t.Errorf("%q, %v, want %q", heard[:n], err, want)
		}
	}
}

func TestNobodyIsToldWithoutASocket(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Ready(); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	if err := Ready(); err == nil {
		t.Error("a socket that is not there takes it")
	}
}
