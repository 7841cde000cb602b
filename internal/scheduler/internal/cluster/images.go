package cluster

import (
	corev1 "k8s.io/api/core/v1"
)

// Image returns an image that some node has.
func (s *State) Image(name string) (*Image, bool) {
	image, ok := s.images[name]
	return image, ok
}

// ImagesVersion changes when nodes are added or removed or have other images.
func (s *State) ImagesVersion() uint64 { return s.imagesVersion }

// setImages reports whether the node's images have changed.
func (s *State) setImages(node *Node, list []corev1.ContainerImage) bool {
	if sameImages(node.Images, list) {
		return false
	}
	for _, image := range node.Images {
		if image.Nodes--; image.Nodes == 0 {
			delete(s.images, image.Name)
		}
	}
	node.Images = nil
	for i := range list {
		for _, name := range list[i].Names {
			node.Images = append(node.Images, s.haveImage(name, list[i].SizeBytes))
		}
	}
	s.imagesVersion++
	return true
}

func (s *State) haveImage(name string, size int64) *Image {
	image, ok := s.images[name]
	if !ok {
		if s.images == nil {
			s.images = make(map[string]*Image)
		}
		image = &Image{Name: name, Size: size}
		s.images[name] = image
	}
	image.Nodes++
	return image
}

// sameImages compares names only: one name can have several sizes, one for each architecture.
func sameImages(have []*Image, list []corev1.ContainerImage) bool {
	i := 0
	for j := range list {
		for _, name := range list[j].Names {
			if i >= len(have) || have[i].Name != name {
				return false
			}
			i++
		}
	}
	return i == len(have)
}
