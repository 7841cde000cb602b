package pods

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// addresses are those that are given out, one file for each, named after it. The file holds whom it was given to.
type addresses struct {
	folder string
}

// errFull says that a range has no free address.
var errFull = errors.New("no address is free")

// lastFile remembers the address that was given out last in a range, so that addresses are not used again at once.
const lastFile = "last."

// locked runs f while no other process changes the addresses.
func (a addresses) locked(f func() error) error {
	if err := os.MkdirAll(a.folder, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(a.folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return f()
}

// take gives an owner an address of a range. The first address is the gateway's.
func (a addresses) take(in netip.Prefix, owner string) (netip.Addr, error) {
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
		switch err := a.note(at, owner); {
		case err == nil:
			return at, os.WriteFile(a.last(in), []byte(at.String()), 0o600)
		case !errors.Is(err, fs.ErrExist):
			return at, err
		case at == start || !in.Contains(at):
			return at, fmt.Errorf("%w in %v", errFull, in)
		}
		if start == gateway(in) {
			start = at // the first that was tried
		}
	}
}

func (a addresses) last(in netip.Prefix) string {
	return filepath.Join(a.folder, lastFile+in.Addr().String())
}

// note writes down that an address belongs to an owner, unless it belongs to somebody.
func (a addresses) note(address netip.Addr, owner string) error {
	f, err := os.OpenFile(a.file(address), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(owner)
	return errors.Join(err, f.Sync(), f.Close())
}

func (a addresses) file(address netip.Addr) string {
	return filepath.Join(a.folder, address.String())
}

// each calls f for each address and its owner.
func (a addresses) each(f func(address netip.Addr, owner string) error) error {
	entries, err := os.ReadDir(a.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		address, no := netip.ParseAddr(e.Name())
		if no != nil {
			continue
		}
		owner, failed := os.ReadFile(a.file(address))
		if failed != nil {
			return failed
		}
		if err := f(address, string(bytes.TrimSpace(owner))); err != nil {
			return err
		}
	}
	return err
}

// of are the addresses of an owner.
func (a addresses) of(owner string) ([]netip.Addr, error) {
	var all []netip.Addr
	err := a.each(func(address netip.Addr, o string) error {
		if o == owner {
			all = append(all, address)
		}
		return nil
	})
	return all, err
}

// free gives back the addresses of those owners that f names.
func (a addresses) free(f func(owner string) bool) error {
	return a.each(func(address netip.Addr, owner string) error {
		if !f(owner) {
			return nil
		}
		return os.Remove(a.file(address))
	})
}

// gateway is the first address of a range that can be used: the node's.
func gateway(in netip.Prefix) netip.Addr { return in.Masked().Addr().Next() }

// broadcast tells whether an address is the last of a range of IPv4.
func broadcast(in netip.Prefix, a netip.Addr) bool { return a.Is4() && !in.Contains(a.Next()) }

// digest is a short word that differs when the text does.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "made for " + hex.EncodeToString(sum[:12])
}
