// Package webhook calls the webhooks that configurations of a cluster name: by URL, or by a service, whose endpoints it
// reaches directly.
//
// What is guaranteed: an answer is that of the server that the configuration names, as its certificate proves: for a
// service the certificate must be valid for NAME.NAMESPACE.svc. Nothing is redirected. An answer is at most MaxAnswer
// long, and a call ends when its context does, whatever the other side does. Connections are used again, over HTTP/2
// where the server speaks it. The endpoints of a service are those of the watch cache, and none is said to be missing
// before the newest state was asked; one that refuses the connection is passed over for another. Calls with the
// credentials of different users share no connection. After Close nothing of the client is running or open.
package webhook
