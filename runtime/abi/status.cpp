#include "abi/status.hpp"

#include <exception>
#include <new>

#include "base/address_space.hpp"
#include "ipc/control_block.hpp"

namespace zf {
namespace {

// These are plain bytes, so that no destructor runs at the end of a thread or when the library is unloaded.
thread_local FixedText<2048> t_last_error;

zf_status status_of(Exit exit) {
  switch (exit) {
    case Exit::usage:
      return ZF_ERROR_USAGE;
    case Exit::stale_plan:
    case Exit::infeasible:
      return ZF_ERROR_PLAN;
    default:
      return ZF_ERROR_SYSTEM;
  }
}

zf_status keep(zf_status status, std::string_view text) noexcept {
  t_last_error.store(text);
  return status;
}

}  // namespace

AbiError::AbiError(zf_status status, std::string_view what, std::string_view next)
    : std::runtime_error(Error(Exit::runtime_error, what, next).what()), status_(status) {}

zf_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const AbiError& error) {
    return keep(error.status(), error.what());
  } catch (const Error& error) {
    return keep(status_of(error.exit()), error.what());
  } catch (const std::bad_alloc&) {
    return keep(ZF_ERROR_SYSTEM, out_of_memory());
  } catch (const std::exception& error) {
    return keep(ZF_ERROR_INTERNAL, error.what());
  } catch (...) {
    return keep(ZF_ERROR_INTERNAL, "an exception without a text");
  }
}

const char* last_error() noexcept { return t_last_error.bytes.data(); }

}  // namespace zf
