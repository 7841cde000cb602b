package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/planes"
	"github.com/millrace/millrace/internal/server/datadir"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// planeCopies are the copies of the control planes in a cluster, each with a data directory of its own.
type planeCopies struct {
	from, to string
	logs     map[string]*journal.Backup // by the name of the directory
}

func (p *planeCopies) close() (err error) {
	for _, log := range p.logs {
		err = errors.Join(err, log.Close())
	}
	return err
}

// update copies what is new of all planes, and removes the copies of those that were deleted.
func (p *planeCopies) update() (written int64, err error) {
	all, err := os.ReadDir(p.from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	there := map[string]bool{}
	for _, entry := range all {
		name := entry.Name()
		if !entry.IsDir() || !planes.Whole(name) {
			continue
		}
		there[name] = true
		n, err := p.one(name)
		if written += n; err != nil && !p.deleted(name) {
			return written, err
		}
	}
	return written, p.removeOthers(there)
}

// one copies what is new of a plane.
func (p *planeCopies) one(name string) (int64, error) {
	from, to := filepath.Join(p.from, name), filepath.Join(p.to, name)
	log := p.logs[name]
	if log == nil {
		if begun, err := journal.Exists(datadir.Log(from)); err != nil || !begun {
			return 0, err // it is being made
		}
		var err error
		if log, err = journal.OpenBackup(datadir.Log(from), datadir.Log(to)); err != nil {
			return 0, err
		}
		p.logs[name] = log
	}
	if err := copyKeys(from, to); err != nil {
		return 0, err
	}
	return log.Update()
}

// deleted reports whether a plane is gone.
func (p *planeCopies) deleted(name string) bool {
	_, err := os.Stat(filepath.Join(p.from, name))
	return errors.Is(err, fs.ErrNotExist)
}

// removeOthers removes the copies of planes that are gone.
func (p *planeCopies) removeOthers(there map[string]bool) error {
	copies, err := os.ReadDir(p.to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, c := range copies {
		name := c.Name()
		if there[name] {
			continue
		}
		if log := p.logs[name]; log != nil {
			err = errors.Join(err, log.Close())
			delete(p.logs, name)
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(p.to, name)))
	}
	return err
}
