package pods

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/filelock"
)

// addresses are the assigned addresses. Each has a file with its name: its first line is the owner, and its second the
// pod if the runtime has named it.
type addresses struct {
	directory string
}

// Owner is the pod that an address was given to, as the runtime names it.
type Owner struct{ Namespace, Name, UID string }

// errFull reports that a range has no free address.
var errFull = errors.New("no address is free")

// lastFile is the prefix of files with the address of a range that was assigned last, so that addresses are not reused
// at once.
const lastFile = "last."

// locked runs f while no other process changes the addresses.
func (a addresses) locked(f func() error) error {
	if err := os.MkdirAll(a.directory, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(a.directory, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := filelock.Lock(lock); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return f()
}

// allocate assigns an address of a range to an owner. The first address is the gateway's.
func (a addresses) allocate(in netip.Prefix, owner, pod string) (netip.Addr, error) {
	in = in.Masked()
	at := gateway(in)
	if text, err := os.ReadFile(a.last(in)); err == nil {
		if last, err := netip.ParseAddr(strings.TrimSpace(string(text))); err == nil && in.Contains(last) {
			at = last
		}
	}
	start := at
	for {
		if at = at.Next(); !in.Contains(at) || broadcast(in, at) {
			at = gateway(in).Next()
		}
		switch err := a.record(at, owner+"\n"+pod); {
		case err == nil:
			return at, os.WriteFile(a.last(in), []byte(at.String()), 0o600)
		case !errors.Is(err, fs.ErrExist):
			return at, err
		case at == start || !in.Contains(at):
			return at, fmt.Errorf("%w in %v", errFull, in)
		}
		if start == gateway(in) {
			start = at // all addresses have been tried
		}
	}
}

func (a addresses) last(in netip.Prefix) string {
	return filepath.Join(a.directory, lastFile+in.Addr().String())
}

// record assigns an address, unless it is assigned already.
func (a addresses) record(address netip.Addr, text string) error {
	f, err := os.OpenFile(a.file(address), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func (a addresses) file(address netip.Addr) string {
	return filepath.Join(a.directory, address.String())
}

// forEach calls f for each address and its owner.
func (a addresses) forEach(f func(address netip.Addr, owner string) error) error {
	return a.forEachFile(func(address netip.Addr, text string) error {
		owner, _, _ := strings.Cut(text, "\n")
		return f(address, strings.TrimSpace(owner))
	})
}

// forEachFile calls f for each address and the text of its file.
func (a addresses) forEachFile(f func(address netip.Addr, text string) error) error {
	entries, err := os.ReadDir(a.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		address, no := netip.ParseAddr(e.Name())
		if no != nil {
			continue
		}
		text, failed := os.ReadFile(a.file(address))
		if errors.Is(failed, fs.ErrNotExist) {
			continue // freed meanwhile
		}
		if failed != nil {
			return failed
		}
		if err := f(address, string(text)); err != nil {
			return err
		}
	}
	return err
}

// ownedBy returns the addresses of an owner.
func (a addresses) ownedBy(owner string) ([]netip.Addr, error) {
	var all []netip.Addr
	err := a.forEach(func(address netip.Addr, o string) error {
		if o == owner {
			all = append(all, address)
		}
		return nil
	})
	return all, err
}

// free frees the addresses of all owners for which f returns true.
func (a addresses) free(f func(owner string) bool) error {
	return a.forEach(func(address netip.Addr, owner string) error {
		if !f(owner) {
			return nil
		}
		return os.Remove(a.file(address))
	})
}

// gateway returns the first usable address of a range, which is the node's.
func gateway(in netip.Prefix) netip.Addr { return in.Masked().Addr().Next() }

// broadcast reports whether an address is the last of an IPv4 range.
func broadcast(in netip.Prefix, a netip.Addr) bool { return a.Is4() && !in.Contains(a.Next()) }

// digest returns a short text that is different for different texts.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "made for " + hex.EncodeToString(sum[:12])
}
