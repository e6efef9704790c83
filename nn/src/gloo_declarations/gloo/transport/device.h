// See ../context.h.
#ifndef HEED_NN_SRC_GLOO_DECLARATIONS_GLOO_TRANSPORT_DEVICE_H_
#define HEED_NN_SRC_GLOO_DECLARATIONS_GLOO_TRANSPORT_DEVICE_H_

namespace gloo::transport {

class Device;
class UnboundBuffer;

}  // namespace gloo::transport

#endif  // HEED_NN_SRC_GLOO_DECLARATIONS_GLOO_TRANSPORT_DEVICE_H_
