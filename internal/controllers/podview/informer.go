package podview

import (
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/loop"
)

// Informer returns the informer of pod views that all loops of a process share. Complete pods are dropped as soon as
// their view is made.
func Informer(c *loop.Clients) *informer.Shared[*Pod] {
	pods := informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().Pods("")), Of, informer.Options[*Pod]{
		Name:              "pods",
		Logger:            c.Log,
		DropManagedFields: true,
		Transform:         new(pool).share,
		// client-go's fake clients accept a streaming list and never send it.
		DisableStreaming: watchlist.DoesClientNotSupportWatchListSemantics(c.Kube),
	})
	pods.AddIndex(byNode)
	return owned.Index(pods)
}
