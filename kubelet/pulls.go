package kubelet

import (
	"context"

	"github.com/millrace/millrace/kubelet/container"
)

// paced are images of which only some are pulled at the same time.
type paced struct {
	container.Images
	turns chan struct{} // has a place for each pull that may run
}

// pacedImages limits how many images are pulled at the same time. 0 means no limit.
func pacedImages(images container.Images, most int) container.Images {
	if most <= 0 {
		return images
	}
	return &paced{images, make(chan struct{}, most)}
}

// Pull waits for its turn, and pulls an image.
func (p *paced) Pull(ctx context.Context, image string, credentials []container.Credential) (string, error) {
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-p.turns }()
	return p.Images.Pull(ctx, image, credentials)
}
