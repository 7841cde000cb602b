package kubelet

import (
	"context"

	"golang.org/x/time/rate"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// paced are images of which only some are pulled at the same time, and only so many in a second.
type paced struct {
	container.Images
	turns chan struct{} // has a place for each pull that may run; nil: any number may
	rate  *rate.Limiter
}

// pacedImages limits how many images are pulled at the same time, and how many pulls begin in a second after a burst. 0
// means no limit. Pulls above a limit wait; Kubernetes lets those above the second one fail, which delays pods by a
// back-off.
func pacedImages(images container.Images, most, perSecond, burst int) container.Images {
	if most <= 0 && perSecond <= 0 {
		return images
	}
	p := &paced{Images: images, rate: rate.NewLimiter(rate.Inf, 0)}
	if perSecond > 0 {
		p.rate = rate.NewLimiter(rate.Limit(perSecond), max(burst, 1))
	}
	if most > 0 {
		p.turns = make(chan struct{}, most)
	}
	return p
}

// Pull waits for its turn, and pulls an image.
func (p *paced) Pull(ctx context.Context, image string, credentials []container.Credential) (string, error) {
	if p.turns != nil {
		select {
		case p.turns <- struct{}{}:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		defer func() { <-p.turns }()
	}
	if err := p.rate.Wait(ctx); err != nil {
		return "", err
	}
	return p.Images.Pull(ctx, image, credentials)
}
