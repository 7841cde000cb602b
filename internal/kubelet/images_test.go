package kubelet

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// shelf is a fake image store. Each image takes ten percent of the disk.
type shelf struct {
	container.ImageStore // methods that are not overridden are never called
	images               []container.Image
	pods                 []container.Pod
	others               int // percent of the disk used by other files
}

func (s *shelf) List(context.Context) ([]container.Image, error) { return slices.Clone(s.images), nil }
func (s *shelf) Pods(context.Context) ([]container.Pod, error)   { return s.pods, nil }
func (s *shelf) Usage(context.Context) (string, uint64, error)   { return "/images", 0, nil }
func (s *shelf) used(string) (int, error)                        { return s.others + 10*len(s.images), nil }

func (s *shelf) RemoveImage(_ context.Context, id string) error {
	s.images = slices.DeleteFunc(s.images, func(i container.Image) bool { return i.ID == id })
	return nil
}

func (s *shelf) left() (ids []string) {
	for _, i := range s.images {
		ids = append(ids, i.ID)
	}
	return ids
}

func (s *shelf) keeper() *imageCollector {
	return &imageCollector{runtime: s, used: s.used, rest: 2 * time.Minute, low: 80, log: slog.New(slog.DiscardHandler)}
}

func images(ids ...string) (all []container.Image) {
	for _, id := range ids {
		all = append(all, container.Image{ID: id, Names: []string{"example.com/" + id + ":1"}})
	}
	return all
}

// An image that has been there for an hour may be removed as soon as the disk fills up, before any pod is evicted.
func TestOldImagesMayBeRemovedAsSoonAsTheDiskFillsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{images: images("a", "b", "c")}
		k := s.keeper()
		for range 60 {
			k.drop(t.Context(), 85)
			time.Sleep(time.Minute)
		}
		s.others = 60
		k.drop(t.Context(), 0)
		if left := s.left(); len(left) != 0 {
			t.Errorf("left are %v, although the disk is short", left)
		}
	})
}

func TestNewPinnedAndUsedImagesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{images: images("used", "volume", "pinned", "free"), others: 60}
		s.images[2].Pinned = true
		s.images = append(s.images, container.Image{ID: "sandbox", Names: []string{"registry.example.com/pause:3"}})
		s.pods = []container.Pod{{Containers: []container.Container{{Image: "example.com/used:1", VolumeImages: []string{"volume"}}}}}
		k := s.keeper()
		k.drop(t.Context(), 85)
		if left := s.left(); len(left) != 5 {
			t.Errorf("left are %v, although all are new", left)
		}
		time.Sleep(2 * time.Minute)
		s.images = append(s.images, images("new")...)
		k.drop(t.Context(), 85)
		if left := s.left(); !slices.Equal(left, []string{"used", "volume", "pinned", "sandbox", "new"}) {
			t.Errorf("left are %v", left)
		}
	})
}

func TestNoMoreImagesAreRemovedThanNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{images: images("a", "b", "c"), others: 60} // 90 percent used; removal stops at 80
		k := s.keeper()
		k.drop(t.Context(), 85)
		time.Sleep(time.Hour)
		k.drop(t.Context(), 85)
		if left := s.left(); len(left) != 1 {
			t.Errorf("left are %v", left)
		}
	})
}
