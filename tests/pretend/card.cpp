// A CUDA card made of the CPU, for card.py: tensors of device cuda:i whose memory is the host's, and
// on which every operation that has a CPU kernel runs that kernel. It counts bytes and waits.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <cstdlib>

namespace {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using Maybe = std::optional<Tensor>;
constexpr auto CARD = DeviceType::CUDA;
const c10::DispatchKeySet KEYS(c10::DispatchKey::CUDA);

thread_local DeviceIndex current = 0;
int cards = 1;
enum { HELD, PEAK, WAITS, UPLOADS, COUNTERS };
std::atomic<int64_t> counted[COUNTERS], most_bytes{INT64_MAX};

void hold(int64_t bytes) {
  if (bytes > 0 && counted[HELD] + bytes > most_bytes) TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory");
  int64_t now = counted[HELD] += bytes, most = counted[PEAK];
  while (now > most && !counted[PEAK].compare_exchange_weak(most, now)) {
  }
}

// --- what c10 and autograd ask of a device --------------------------------------------------------

struct Guard final : c10::impl::NoOpDeviceGuardImpl<CARD> {
  Device getDevice() const override { return Device(CARD, current); }
  void uncheckedSetDevice(Device d) const noexcept override { if (d.has_index()) current = d.index(); }
  void setDevice(Device d) const override { uncheckedSetDevice(d); }
  Device exchangeDevice(Device d) const override {
    Device was(CARD, current);
    uncheckedSetDevice(d);
    return was;
  }
  c10::Stream getStream(Device d) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, d); }
  c10::Stream getDefaultStream(Device d) const override { return getStream(d); }
  c10::Stream exchangeStream(c10::Stream s) const noexcept override { return s; }
  DeviceIndex deviceCount() const noexcept override { return cards; }
  void record(void**, const c10::Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
} guard;
c10::impl::DeviceGuardImplRegistrar guarded(CARD, &guard);

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return cards; }
  DeviceIndex deviceCount() const override { return cards; }
  DeviceIndex current_device() const override { return current; }
  DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(DeviceIndex d) const override { current = d; }
  DeviceIndex exchangeDevice(DeviceIndex d) const override { return std::exchange(current, d); }
  DeviceIndex maybeExchangeDevice(DeviceIndex d) const override { return d < 0 ? current : exchangeDevice(d); }
  const at::Generator& getDefaultGenerator(DeviceIndex) const override { return at::detail::getDefaultCPUGenerator(); }
};

struct Memory final : c10::Allocator {
  struct Block { void* data; int64_t bytes; };
  static void give_back(void* p) {
    auto block = static_cast<Block*>(p);
    hold(-block->bytes);
    std::free(block->data);
    delete block;
  }
  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    hold(bytes);
    TORCH_CHECK(!bytes || !posix_memalign(&data, 64, bytes), "no memory");
    return {data, new Block{data, int64_t(bytes)}, &give_back, Device(CARD, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
} memory;

// --- one operation --------------------------------------------------------------------------------

Tensor over(c10::Storage storage, c10::DispatchKeySet keys, const Tensor& like, int64_t offset, bool view = false) {
  auto x = view ? at::detail::make_tensor<at::TensorImpl>(at::TensorImpl::VIEW, std::move(storage), keys, like.dtype())
                : at::detail::make_tensor<at::TensorImpl>(std::move(storage), keys, like.dtype());
  x.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), offset);
  return x;
}

// The same memory as a tensor of the CPU.
Tensor lent(const Tensor& t) {
  if (!t.storage().nbytes()) return at::empty_strided(t.sizes(), t.strides(), at::device(at::kCPU).dtype(t.dtype()));
  auto bytes = c10::Storage::use_byte_size_t();
  at::DataPtr data(t.storage().mutable_data(), Device(DeviceType::CPU));
  c10::Storage storage(bytes, t.storage().nbytes(), std::move(data), nullptr, false);
  auto x = over(storage, c10::DispatchKeySet(c10::DispatchKey::CPU), t, t.storage_offset());
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) x.unsafeGetTensorImpl()->set_wrapped_number(true);
  return x;
}

// A result of the CPU's kernel as a tensor of the card, which has it in its books until it dies.
struct Result {
  Tensor tensor;
  ~Result() { hold(-int64_t(tensor.storage().nbytes())); }
};
Tensor taken(const Tensor& t, Device card) {
  hold(t.storage().nbytes());
  at::DataPtr data(t.storage().mutable_data(), new Result{t}, [](void* p) { delete static_cast<Result*>(p); }, card);
  c10::Storage storage(c10::Storage::use_byte_size_t(), t.storage().nbytes(), std::move(data), &memory, false);
  return over(storage, KEYS, t, t.storage_offset());
}

template <class F>
void each(c10::IValue& value, F f) {  // f(tensor) in its place; an index may be of the CPU
  if (value.isTensor()) {
    value = f(value.toTensor(), false);
  } else if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (Tensor t : value.toTensorList()) list.push_back(f(t, false));
    value = list;
  } else if (value.isOptionalTensorList()) {
    c10::List<Maybe> list;
    for (Maybe t : value.toOptionalTensorList()) list.push_back(t ? Maybe(f(*t, true)) : t);
    value = list;
  }
}

// Whether the host waits: the result, or its shape, depends on numbers that are on the card.
bool waits(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.hasTag(at::Tag::data_dependent_output)) return true;
  if (!op.hasTag(at::Tag::dynamic_output_shape)) return false;
  if (op.schema().name() != "aten::index") return true;
  for (Maybe t : arguments[1].toOptionalTensorList())  // a mask; numbers of rows give the shape
    if (t && (t->scalar_type() == at::kBool || t->scalar_type() == at::kByte)) return true;
  return false;
}

void run(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto name = schema.name();
  std::vector<Tensor> here, there;  // the arguments, and the same memory as the CPU's
  std::optional<Device> card;
  auto arguments = torch::jit::last(*stack, schema.arguments().size());
  const auto first = stack->size() - arguments.size();
  for (auto i = first; i < stack->size(); i++) {
    auto& value = (*stack)[i];
    each(value, [&](const Tensor& t, bool) {
      if (t.defined() && t.is_cuda()) {
        TORCH_CHECK(!card || *card == t.device(), "Expected all tensors to be on the same device, but found ", *card, " and ", t.device(), "! (", name, ")");
        card = t.device();
      }
      return t;
    });
    if (value.isDevice() && value.toDevice().type() == CARD) {
      if (!card && value.toDevice().has_index()) card = value.toDevice();
      value = c10::IValue(Device(DeviceType::CPU));
    }
    if (value.isGenerator()) value = c10::IValue();
  }
  if (!card) card = Device(CARD, current);
  for (auto i = first; i < stack->size(); i++) {
    each((*stack)[i], [&](const Tensor& t, bool index) -> Tensor {
      if (!t.defined()) return t;
      if (!t.is_cuda()) {  // numbers and indices may come from the host
        TORCH_CHECK(t.dim() == 0 || index, "Expected all tensors to be on the same device, but found at least two devices, ", *card, " and ", t.device(), "! (", name, ")");
        return t;
      }
      for (size_t n = 0; n < here.size(); n++) if (here[n].is_same(t)) return there[n];
      here.push_back(t);
      there.push_back(lent(t));
      return there.back();
    });
  }
  const bool waited = waits(op, arguments);
  {
    at::AutoDispatchBelowADInplaceOrView plain;
    c10::impl::ExcludeDispatchKeyGuard full(c10::autocast_dispatch_keyset);
    op.callBoxed(stack);
  }
  for (auto i = stack->size() - schema.returns().size(); i < stack->size(); i++) {
    each((*stack)[i], [&](const Tensor& t, bool) -> Tensor {
      if (!t.defined()) return t;
      for (size_t n = 0; n < here.size(); n++) {
        if (there[n].is_same(t)) {
          auto into = here[n].unsafeGetTensorImpl();
          if (!here[n].storage().nbytes() && t.storage().nbytes())  // its first memory
            into->set_storage_keep_dtype(taken(t, *card).storage());
          if (here[n].sizes() != t.sizes())
            into->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
          return here[n];
        }
        if (t.numel() && there[n].storage().data() == t.storage().data())
          return over(here[n].storage(), here[n].key_set(), t, t.storage_offset(), true);
      }
      return taken(t, *card);
    });
  }
  counted[WAITS] += waited;
}

// --- operations that are not their CPU kernel -----------------------------------------------------

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::OptionalDeviceGuard on(device);
  return at::detail::empty_generic(size, &memory, KEYS, c10::dtype_or_default(type), format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>) {
  c10::OptionalDeviceGuard on(device);
  return at::detail::empty_strided_generic(size, stride, &memory, KEYS, c10::dtype_or_default(type));
}

Tensor& copy(Tensor& to, const Tensor& from, bool) {
  at::AutoDispatchBelowADInplaceOrView plain;
  if (to.numel() && to.is_cuda() != from.is_cuda()) counted[to.is_cuda() ? UPLOADS : WAITS]++;
  (to.is_cuda() ? lent(to) : to).copy_(from.is_cuda() ? lent(from) : from);
  return to;
}

Tensor& set_part(Tensor& x, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  x.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  x.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  return x;
}

Tensor& set_whole(Tensor& x, at::Storage source) {
  int64_t count = source.nbytes() / x.dtype().itemsize();
  return set_part(x, std::move(source), 0, {count}, {1});
}

// What only a card has as one kernel.
template <class F>
auto alone(F f) {
  at::AutoDispatchBelowADInplaceOrView plain;
  c10::impl::ExcludeDispatchKeyGuard full(c10::autocast_dispatch_keyset);
  return f();
}
Maybe lent(const Maybe& t) { return t && t->defined() ? Maybe(lent(*t)) : std::nullopt; }

Tensor bmm_into(const Tensor& a, const Tensor& b, at::ScalarType type) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type() && (a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16) && type == at::kFloat, "bmm: out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
  return alone([&] { return taken(at::bmm(lent(a).to(type), lent(b).to(type)), a.device()); });
}

std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, at::IntArrayRef, const Maybe& weight, std::optional<double> eps) {
  return alone([&] {
    auto y = lent(x).to(at::kFloat), scale = y.square().mean(-1, true).add(eps.value_or(1.1920929e-07)).rsqrt();
    auto out = y * scale;
    if (weight) out = out * lent(*weight);
    return std::make_tuple(taken(out.to(x.scalar_type()), x.device()), taken(scale, x.device()));
  });
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x, at::IntArrayRef, const Tensor& scale, const Maybe& weight, std::array<bool, 2> wanted) {
  return alone([&] {
    auto y = lent(x).to(at::kFloat) * lent(scale), g = lent(grad).to(at::kFloat);
    auto inner = weight ? g * lent(*weight) : g;
    Tensor dx, dw;
    if (wanted[0]) dx = taken(((inner - y * (inner * y).mean(-1, true)) * lent(scale)).to(x.scalar_type()), x.device());
    if (wanted[1]) dw = taken((g * y).flatten(0, -2).sum(0).to(weight->scalar_type()), x.device());
    return std::make_tuple(dx, dw);
  });
}

// Attention: a card's fused kernels take no grouped heads in 32 bits or under a mask; what they do
// take keeps no scores, as the CPU's fused kernel does not.
Tensor choose_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& mask, double, bool causal, std::optional<double> scale, bool groups) {
  bool grouped = q.size(1) != k.size(1);
  if (grouped && (mask || q.scalar_type() == at::kFloat))
    return std::get<0>(at::_scaled_dot_product_attention_math(q, k, v, mask, 0.0, causal, std::nullopt, scale, groups));
  Maybe bias = mask;
  if (mask && mask->scalar_type() == at::kBool)
    bias = at::zeros(mask->sizes(), q.options()).masked_fill_(mask->logical_not(), -INFINITY);
  return std::get<0>(at::_scaled_dot_product_efficient_attention(q, k, v, bias, true, 0.0, causal, scale));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& bias, bool, double, bool causal, std::optional<double> scale) {
  return alone([&] {
    auto repeated = [&](const Tensor& t) { return lent(t).repeat_interleave(q.size(1) / t.size(1), 1); };
    auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(lent(q), repeated(k), repeated(v), 0.0, causal, lent(bias), scale);
    auto none = at::empty({0}, q.options());
    return std::make_tuple(taken(out, q.device()), taken(sums, q.device()), none, none);
  });
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& out, const Tensor& sums, const Tensor&, const Tensor&, double, std::array<bool, 4>, bool causal, std::optional<double> scale) {
  return alone([&] {
    auto group = q.size(1) / k.size(1);
    auto repeated = [&](const Tensor& t) { return lent(t).repeat_interleave(group, 1); };
    auto summed = [&](const Tensor& t) { return taken(t.unflatten(1, {-1, group}).sum(2), q.device()); };
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(lent(grad), lent(q), repeated(k), repeated(v), lent(out), lent(sums), 0.0, causal, bias.defined() ? Maybe(lent(bias)) : std::nullopt, scale);
    return std::make_tuple(taken(dq, q.device()), summed(dk), summed(dv), Tensor());
  });
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run>()); }

TORCH_LIBRARY_IMPL(aten, AutogradCUDA, m) { m.impl("scaled_dot_product_attention", TORCH_FN(choose_attention)); }

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("copy_", TORCH_FN(copy));
  m.impl("set_.source_Storage", TORCH_FN(set_whole));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_part));
  m.impl("bmm.dtype", TORCH_FN(bmm_into));
  m.impl("_fused_rms_norm", TORCH_FN(rms_norm));
  m.impl("_fused_rms_norm_backward", TORCH_FN(rms_norm_backward));
  m.impl("scaled_dot_product_attention", TORCH_FN(choose_attention));
  m.impl("_scaled_dot_product_efficient_attention", TORCH_FN(attention));
  m.impl("_scaled_dot_product_efficient_attention_backward", TORCH_FN(attention_backward));
  // All else that has a kernel of its own on the CPU, so that no generic one is asked first.
  auto& known = c10::Dispatcher::singleton();
  for (auto& name : known.getAllOpNames()) {
    auto op = known.findOp(name);
    bool ours = name.name.rfind("aten::", 0) == 0 && op && op->hasKernelForDispatchKey(c10::DispatchKey::CPU);
    if (ours && !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA))
      m.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&run>());
  }
}

struct Start {
  Start() { c10::SetAllocator(CARD, &memory, 100); }
} start;

}  // namespace

namespace at {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, Hooks)
}

extern "C" {
void card_start(int count) { cards = count; }
int64_t card_count(int what) { return counted[what]; }
void card_limit(int64_t bytes) { most_bytes = bytes; }
void card_reset_peak() { counted[PEAK] = counted[HELD].load(); }
int card_current() { return current; }
void card_set(int index) { current = index; }
int card_exchange(int index) { return index < 0 ? current : std::exchange(current, index); }
}
