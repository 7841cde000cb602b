package stats

import (
	"io/fs"
	"path/filepath"
	"time"
)

// Directory returns the disk usage of a directory tree. Files that disappear meanwhile are skipped.
func Directory(path string) *FS {
	var used, inodes uint64
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			if d == nil {
				return err
			}
			return nil
		}
		inodes++
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			used += onDisk(info)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return &FS{Time: moment(time.Now()), Used: &used, InodesUsed: &inodes}
}
