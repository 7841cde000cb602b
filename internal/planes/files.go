package planes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/durable"
)

// asleepFile says, in the directory of a plane, that it sleeps, and until when. Where it is missing the plane was awake
// when its host ended.
const asleepFile = "asleep.json"

type asleep struct {
	Due time.Time `json:"due,omitzero"`
}

func keepDue(directory string, due time.Time) error {
	if directory == "" {
		return nil
	}
	text, err := json.Marshal(asleep{due})
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(directory, asleepFile), text, 0o600)
}

func forgetDue(directory string) error {
	if directory == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(directory, asleepFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readDue returns when a plane that sleeps must be woken. A plane that was not put to sleep must be woken now.
func readDue(directory string, now time.Time) (time.Time, error) {
	text, err := os.ReadFile(filepath.Join(directory, asleepFile))
	if errors.Is(err, fs.ErrNotExist) {
		return now, nil
	}
	var a asleep
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		return now, fmt.Errorf("when a sleeping control plane is to be woken: %w", err)
	}
	return a.Due, nil
}

// removedSuffix is of a directory that is being removed, in case that is interrupted.
const removedSuffix = ".removed"

// Whole reports whether the name of a directory is that of a plane, rather than of one that is being made or removed.
func Whole(name string) bool {
	return !strings.HasSuffix(name, unfinishedSuffix) && !strings.HasSuffix(name, removedSuffix)
}

// removeDirectory removes a plane's directory. After the first step nothing can take it for one.
func removeDirectory(directory string) error {
	if directory == "" {
		return nil
	}
	removed := directory + removedSuffix
	if err := os.Rename(directory, removed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(removed); err != nil {
		return err
	}
	return durable.SyncDirectory(filepath.Dir(directory))
}
