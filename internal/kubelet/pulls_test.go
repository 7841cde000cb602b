package kubelet

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// slowImages take a second for each pull.
type slowImages struct {
	container.Images
	now, most atomic.Int32
}

func (s *slowImages) Pull(context.Context, string, []container.Credential) (string, error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	time.Sleep(time.Second)
	s.now.Add(-1)
	return "image", nil
}

func TestOnlySomeImagesArePulledAtTheSameTime(t *testing.T) {
	for limits, took := range map[[3]int]time.Duration{
		{}: time.Second, {1, 0, 0}: 6 * time.Second, {2, 0, 0}: 3 * time.Second, {0, 2, 4}: 2 * time.Second, {0, 2, 0}: 3500 * time.Millisecond, {3, 10, 6}: 2 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			slow := &slowImages{}
			images := pacedImages(slow, limits[0], limits[1], limits[2])
			began, ended := time.Now(), make(chan error)
			for range 6 {
				go func() {
					_, err := images.Pull(t.Context(), "image", nil)
					ended <- err
				}()
			}
			for range 6 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if got := time.Since(began); got != took {
				t.Errorf("with limits of %v, 6 pulls take %v, of which %d at the same time", limits, got, slow.most.Load())
			}
		})
	}
}
