package kubelet

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/kubelet/container"
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
	for most, took := range map[int]time.Duration{0: time.Second, 1: 6 * time.Second, 2: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			slow := &slowImages{}
			images := pacedImages(slow, most)
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
				t.Errorf("with a limit of %d, 6 pulls take %v, of which %d at the same time", most, got, slow.most.Load())
			}
		})
	}
}
