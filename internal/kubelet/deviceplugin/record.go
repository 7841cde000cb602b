package deviceplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/millrace/millrace/internal/durable"
)

// grant is what a container was given of one resource.
type grant struct {
	Pod       types.UID           `json:"podUID"`
	Container string              `json:"containerName"`
	Resource  corev1.ResourceName `json:"resourceName"`
	Devices   []string            `json:"deviceIDs"`
	// Answer is the plugin's, encoded: how the container gets its devices.
	Answer []byte `json:"allocateResponse"`
}

func (g *grant) answer() (*api.ContainerAllocateResponse, error) {
	a := &api.ContainerAllocateResponse{}
	if err := proto.Unmarshal(g.Answer, a); err != nil {
		return nil, fmt.Errorf("read how container %s gets %s: %w", g.Container, g.Resource, err)
	}
	return a, nil
}

// contents is the file. Resources that were known once count 0 until their plugins are back: the scheduler must not
// take them for resources of the cluster.
type contents struct {
	Grants    []*grant              `json:"podDevices"`
	Resources []corev1.ResourceName `json:"registeredResources"`
}

func (p *Plugins) file() string { return filepath.Join(p.Directory, "device_plugin_state") }

func (p *Plugins) load() error {
	encoded, err := os.ReadFile(p.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c contents
	if err == nil {
		err = json.Unmarshal(encoded, &c)
	}
	if err != nil {
		return fmt.Errorf("read which devices containers have: %s: %w", p.file(), err)
	}
	p.grants = c.Grants
	for _, name := range c.Resources {
		p.kinds[name] = &kind{}
	}
	for _, g := range c.Grants {
		p.kinds[g.Resource] = &kind{}
	}
	return nil
}

func (p *Plugins) saveLocked() error {
	c := contents{Grants: p.grants, Resources: slices.Sorted(maps.Keys(p.kinds))}
	encoded, err := json.Marshal(c)
	if err == nil {
		err = durable.WriteFile(p.file(), encoded, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write which devices containers have: %w", err)
	}
	return nil
}
