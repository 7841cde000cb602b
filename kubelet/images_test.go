package kubelet

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/kubelet/container"
)

// shelf is a disk with images, of which each takes ten percent.
type shelf struct {
	container.Keeper // what is not below is never called
	images           []container.Image
	pods             []container.Pod
	others           int // percent that other files take
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

func (s *shelf) keeper() *imageKeeper {
	return &imageKeeper{runtime: s, used: s.used, rest: 2 * time.Minute, low: 80, log: slog.New(slog.DiscardHandler)}
}

func images(ids ...string) (all []container.Image) {
	for _, id := range ids {
		all = append(all, container.Image{ID: id, Names: []string{"example.com/" + id + ":1"}})
	}
	return all
}

// TestImagesThatWereThereAreNotNewWhenTheDiskFillsUp: an image that has been there for an hour can be removed at once
// when the disk fills up, before a pod must be evicted.
func TestImagesThatWereThereAreNotNewWhenTheDiskFillsUp(t *testing.T) {
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

func TestImagesThatAreNewPinnedOrUsedStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{images: images("used", "pinned", "free"), others: 70}
		s.images[1].Pinned = true
		s.images = append(s.images, container.Image{ID: "sandbox", Names: []string{"registry.example.com/pause:3"}})
		s.pods = []container.Pod{{Containers: []container.Container{{Image: "example.com/used:1"}}}}
		k := s.keeper()
		k.drop(t.Context(), 85)
		if left := s.left(); len(left) != 4 {
			t.Errorf("left are %v, although all are new", left)
		}
		time.Sleep(2 * time.Minute)
		s.images = append(s.images, images("new")...)
		k.drop(t.Context(), 85)
		if left := s.left(); !slices.Equal(left, []string{"used", "pinned", "sandbox", "new"}) {
			t.Errorf("left are %v", left)
		}
	})
}

func TestNoMoreImagesAreRemovedThanNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{images: images("a", "b", "c"), others: 60} // 90 percent; 80 may stay
		k := s.keeper()
		k.drop(t.Context(), 85)
		time.Sleep(time.Hour)
		k.drop(t.Context(), 85)
		if left := s.left(); len(left) != 1 {
			t.Errorf("left are %v", left)
		}
	})
}
