package persistentvolume

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// given says which volumes were given to which claims until the cache of volumes shows it. Without it all claims that
// wait would choose the same volume, and all but one of them would fail and be tried again.
type given struct {
	mu  sync.Mutex
	all map[string]gift // by the volume's name
}

// gift is a volume, in the version in which it was free.
type gift struct {
	claim   types.UID
	version string
}

// toAnother reports whether a volume was given to another claim. The caller holds mu.
func (g *given) toAnother(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	to, ok := g.all[v.Name]
	return ok && to.version == v.ResourceVersion && to.claim != c.UID
}

// note notes that a volume is given to a claim. The caller holds mu.
func (g *given) note(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) {
	if g.all == nil {
		g.all = map[string]gift{}
	}
	g.all[v.Name] = gift{claim: c.UID, version: v.ResourceVersion}
}

// takeBack gives a volume back that could not be bound to a claim.
func (g *given) takeBack(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all[v.Name].claim == c.UID {
		delete(g.all, v.Name)
	}
}

// seen forgets a volume whose cached version is another one than the one that was given, or that is gone, which has no
// version.
func (g *given) seen(volume, version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if to, ok := g.all[volume]; ok && to.version != version {
		delete(g.all, volume)
	}
}
