package cri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Find returns the runtime's ID of an image that it has.
func (r *Runtime) Find(ctx context.Context, image string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	answer, err := r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil || answer.Image == nil {
		return "", err
	}
	return answer.Image.Id, nil
}

// Pull pulls an image with the first credentials that work.
func (r *Runtime) Pull(ctx context.Context, image string, credentials []container.Credential) (string, error) {
	request := &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: image}}
	if len(credentials) == 0 {
		return r.pull(ctx, request)
	}
	var err error
	for _, c := range credentials {
		request.Auth = &runtimeapi.AuthConfig{
			Username: c.Username, Password: c.Password, Auth: c.Auth, ServerAddress: c.ServerAddress, IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken,
		}
		var ref string
		if ref, err = r.pull(ctx, request); err == nil {
			return ref, nil
		}
	}
	return "", err
}

func (r *Runtime) pull(ctx context.Context, request *runtimeapi.PullImageRequest) (string, error) {
	answer, err := r.images.PullImage(ctx, request)
	if err != nil {
		return "", err
	}
	return answer.ImageRef, nil
}

// List returns all images.
func (r *Runtime) List(ctx context.Context) ([]container.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	answer, err := r.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var all []container.Image
	for _, i := range answer.Images {
		all = append(all, container.Image{ID: i.Id, Names: i.RepoTags, Digests: i.RepoDigests, Bytes: int64(i.Size), Pinned: i.Pinned})
	}
	return all, nil
}

// RemoveImage removes an image.
func (r *Runtime) RemoveImage(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	_, err := r.images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	return ignoreMissing(err)
}

// Usage returns the mount that holds the images, and how many bytes they take.
func (r *Runtime) Usage(ctx context.Context) (mount string, bytes uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	answer, err := r.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return "", 0, err
	}
	for _, fs := range answer.ImageFilesystems {
		return fs.GetFsId().GetMountpoint(), fs.GetUsedBytes().GetValue(), nil
	}
	return "", 0, nil
}

// User returns the user of an image.
func (r *Runtime) User(ctx context.Context, ref string) (uid *int64, name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	answer, err := r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		return nil, "", err
	}
	if u := answer.GetImage().GetUid(); u != nil {
		return &u.Value, "", nil
	}
	return nil, answer.GetImage().GetUsername(), nil
}
