package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/cmd/millrace/internal/serving"
)

const (
	// soon is how long before its end a certificate is mentioned.
	soon = 30 * 24 * time.Hour
	// syncs is how many writes are measured, and slowSync what makes a cluster slow: each write of the API waits for one.
	syncs    = 40
	slowSync = 20 * time.Millisecond
)

// address tells whether the API can listen.
func (m machine) address() []finding {
	l, err := net.Listen("tcp", m.listen)
	switch {
	case err == nil:
		l.Close()
		return []finding{{fine, m.listen + " is free", ""}}
	case errors.Is(err, syscall.EADDRINUSE) && m.running():
		return []finding{{fine, m.listen + " is in use, probably by the cluster of this data directory", ""}}
	case errors.Is(err, syscall.EADDRINUSE):
		return []finding{{broken, m.listen + " is in use by another process", "choose another with --listen (port 0 takes a free one)"}}
	}
	return []finding{{broken, fmt.Sprintf("cannot listen on %s (%v)", m.listen, err), "choose another with --listen"}}
}

// running reports whether a cluster uses the data directory.
func (m machine) running() bool { return m.data != "memory" && serving.InUse(m.data) }

// dataDirectory tells whether the data directory can be written to.
func (m machine) dataDirectory() []finding {
	at := m.existing()
	switch {
	case m.data == "memory":
		return []finding{{fine, "none: the cluster ends with its process", ""}}
	case m.running():
		return []finding{{fine, m.data + " is in use by a cluster", ""}}
	}
	f, err := os.CreateTemp(at, ".millrace-doctor-*")
	if err != nil {
		return []finding{{broken, fmt.Sprintf("%s cannot be written to (%v)", at, err), "choose another with --data"}}
	}
	f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return []finding{{unusual, err.Error(), "remove it"}}
	}
	if at != filepath.Clean(m.data) {
		return []finding{{fine, m.data + " will be made", ""}}
	}
	return []finding{{fine, m.data, ""}}
}

// disk measures how long a write takes that must survive a crash.
func (m machine) disk() []finding {
	if m.data == "memory" {
		return nil
	}
	took, err := measure(m.existing())
	if err != nil {
		return nil // the check of the data directory has said it
	}
	slices.Sort(took)
	middle, worst := took[len(took)/2], took[len(took)-1]
	what := fmt.Sprintf("a write of 4 KiB is safe after %v; of %d the slowest took %v", middle.Round(10*time.Microsecond), len(took), worst.Round(10*time.Microsecond))
	if middle > slowSync {
		return []finding{{unusual, what, "every change waits for one: a disk with a faster fsync makes the cluster faster"}}
	}
	return []finding{{fine, what, ""}}
}

// measure returns how long writes took with fsync.
func measure(directory string) (took []time.Duration, err error) {
	f, err := os.CreateTemp(directory, ".millrace-doctor-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 4096)
	for range syncs {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// certificates names those of the data directory that have ended or end soon.
func (m machine) certificates() []finding {
	if m.data == "memory" {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(m.data, "pki", "*.crt")) // the pattern is a good one
	byName := map[string][]byte{}
	for _, path := range files {
		if text, err := os.ReadFile(path); err == nil {
			byName[path] = text
		}
	}
	path := filepath.Join(m.data, "kubeconfig")
	if config, err := clientcmd.LoadFromFile(path); err == nil {
		for _, user := range config.AuthInfos {
			byName[path] = user.ClientCertificateData
		}
	}
	var found []finding
	checked := 0
	for name, text := range byName {
		for _, c := range parse(text) {
			checked++
			if f, bad := m.validity(name, c); bad {
				found = append(found, f)
			}
		}
	}
	switch {
	case len(found) > 0:
		slices.SortFunc(found, func(a, b finding) int { return strings.Compare(a.what, b.what) })
		return found
	case checked == 0:
		return []finding{{fine, "none yet", ""}}
	}
	return []finding{{fine, fmt.Sprintf("%d, none of which ends within %s", checked, duration.HumanDuration(soon)), ""}}
}

// validity judges one certificate. Certificates that this program has made are renewed by a server that runs.
func (m machine) validity(name string, c *x509.Certificate) (finding, bool) {
	switch left := c.NotAfter.Sub(m.now); {
	case m.now.Before(c.NotBefore):
		return finding{broken, fmt.Sprintf("%s (%s) begins at %s", name, c.Subject.CommonName, c.NotBefore.Format(time.DateTime)), "set the clock"}, true
	case left <= 0:
		what := fmt.Sprintf("%s (%s) has ended at %s", name, c.Subject.CommonName, c.NotAfter.Format(time.DateTime))
		return finding{broken, what, "start the cluster, which renews its own; replace one that was given"}, true
	case left < soon:
		return finding{unusual, fmt.Sprintf("%s (%s) ends in %s", name, c.Subject.CommonName, duration.HumanDuration(left)), "a running cluster renews its own; replace one that was given"}, true
	}
	return finding{}, false
}

// parse returns the certificates in PEM.
func parse(text []byte) (all []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
}
