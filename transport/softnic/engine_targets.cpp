// DC targets: their control calls.
#include "transport/softnic/core.h"
#include "transport/softnic/engine_checks.h"

namespace gshmem::soft {

std::uint32_t Engine::create_target(const TargetAttributes& attributes) {
  const Core::Lock lock(*impl_);
  impl_->check_present();
  Context& context = impl_->context;
  check(impl_->pds.count(attributes.pd) != 0, kBadResource,
        strprintf("there is no protection domain %u", attributes.pd));
  check_mtu(attributes.mtu, context.options.profile);
  check(attributes.min_rnr_timer <= 31, kBadParameter, "an RNR timer has 5 bits");
  impl_->fabric();
  check(attributes.gid_index < context.port.gids.size(), kBadParameter,
        strprintf("there is no GID %u", unsigned{attributes.gid_index}));
  auto target = std::make_unique<Target>();
  target->attributes = attributes;
  target->cq = &find(context.cqs, attributes.cq, "completion queue");
  if (attributes.receives != 0)
    target->receives = &find(context.shared_receives, attributes.receives, "receive queue");
  const std::uint32_t number = target->number = impl_->next_number();
  target->ordinal = impl_->created_qps++;
  if (target->receives != nullptr) ++target->receives->users;
  ++target->cq->users, ++impl_->pds[attributes.pd];
  context.targets.emplace(number, std::move(target));
  return number;
}

void Engine::destroy_target(std::uint32_t number) {
  const Core::Lock lock(*impl_);
  Target& target = find(impl_->context.targets, number, "DC target");
  for (auto& [initiator, connection] : target.connections) impl_->responder.drop(*connection);
  if (target.receives != nullptr) --target.receives->users;
  --target.cq->users, --impl_->pds[target.attributes.pd];
  impl_->context.targets.erase(number);
}

std::uint32_t Engine::key_violations(std::uint32_t target) const {
  const Core::Lock lock(*impl_);
  return find(impl_->context.targets, target, "DC target").key_violations;
}

std::size_t Engine::connections(std::uint32_t target) const {
  const Core::Lock lock(*impl_);
  return find(impl_->context.targets, target, "DC target").connections.size();
}

}  // namespace gshmem::soft
